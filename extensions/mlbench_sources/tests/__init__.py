"""The sources: what libraries report, as lines of the metrics file, and real libraries."""
