"""Tests of what the API says to Prometheus."""
