"""The master: the REST API, the controller, and the way to and from Prometheus."""
