"""The way in: from what a client sends to a sample in Prometheus."""
