"""What MLBench records of unmodified programs, with the real libraries."""
