"""The way out: queries, merged series, counts, logs."""
