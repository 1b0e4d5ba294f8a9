"""Tests of the master: the API, the controller, and reading and writing in Prometheus."""
