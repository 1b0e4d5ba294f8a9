"""Tests of the dashboards: they are current, hang together, and every query finds data."""
