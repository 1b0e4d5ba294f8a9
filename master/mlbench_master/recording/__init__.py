"""Receive data of clients, index their samples, and export these to Prometheus."""
