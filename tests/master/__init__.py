"""Tests of the master: the API, the controller, and the way to and from Prometheus."""
