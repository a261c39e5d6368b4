"""The definitions that every golden file is built from, one module per format."""
