"""Terminal console for andrea_engine runs; see README.md."""
