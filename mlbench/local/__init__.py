"""The local stack: Prometheus, master, controller, exporter and workers, on this machine."""
