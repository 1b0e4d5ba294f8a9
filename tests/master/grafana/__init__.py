"""Tests of the way to Grafana."""
