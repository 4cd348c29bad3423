"""The commands of `andrea-engine`, one file each. Heavy imports stay inside the functions."""
