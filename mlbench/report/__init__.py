"""Reports of comparisons: pure functions from records to text, a file for each format."""
