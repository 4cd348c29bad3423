"""Long loops of faults: `python -m tests.faults.soak`. Each trial follows from its seed, and can be replayed by it."""
