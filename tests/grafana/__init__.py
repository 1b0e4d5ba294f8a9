"""Tests of the dashboards: their form, their references, and that every query finds data."""
