"""Everything about a run directory, without torch or numpy, shared by engine and console."""
