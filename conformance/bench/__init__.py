"""Benchmarks: ratios measured side by side, in one run, on the same files. ``python -m ckptspec.conformance.bench``."""
