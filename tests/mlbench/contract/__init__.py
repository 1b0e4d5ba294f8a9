"""Tests of what all parts share."""
