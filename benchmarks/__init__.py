"""What metrana costs, as medians of many runs: ``python -m benchmarks``."""
