"""What the formats are: declarations only. Nothing in this package opens a file."""
