"""The pivot wizard: look at the policy, edit it, see what it would do, review, apply; then follow it to its receipt."""
