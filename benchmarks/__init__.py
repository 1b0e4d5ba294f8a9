"""Measurements of what the documentation claims: ``make bench``."""
