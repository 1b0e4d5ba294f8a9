"""Reading: series from Prometheus, from samples that wait for it, and from kept samples."""
