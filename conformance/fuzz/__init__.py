"""Coverage-guided fuzzing of everything that reads files: ``python -m ckptspec.conformance.fuzz``; docs/fuzzing.md."""
