"""The way out: series from Prometheus, from what is still waiting, and from what is kept."""
