"""Tests of the master: the API, the controller, and its use of Prometheus."""
