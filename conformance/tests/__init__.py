"""The tests of the project; ``pytest --pyargs ckptspec.conformance`` runs them from an installed package."""
