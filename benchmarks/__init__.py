"""Measurements of the product against its peers: `python -m benchmarks`, `make bench` or `andrea-engine bench`."""
