"""The conformance suite: case definitions, golden files, the runner and the property tests."""
