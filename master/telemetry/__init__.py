"""What the API says of the master, its runs and pods, to Prometheus."""
