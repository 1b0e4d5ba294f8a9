"""Reading: the record of runs, series from Prometheus, logs and files."""
