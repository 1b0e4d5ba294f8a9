"""Receive data of clients, and deliver their samples to Prometheus."""
