"""Tests of the dashboards: their files are up to date and valid, and every query finds data."""
