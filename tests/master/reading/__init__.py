"""Reading: queries, merged series, counts, logs."""
