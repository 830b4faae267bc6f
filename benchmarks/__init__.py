"""Benchmarks of kafkalog against its peers, measured in one run: `python -m benchmarks.run`."""
