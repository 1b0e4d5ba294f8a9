"""Sources: reports of libraries as lines of the metrics file, and real libraries."""
