"""Recording of unmodified programs with their real libraries."""
