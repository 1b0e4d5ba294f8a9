"""Tests of what benchmark tasks share."""
