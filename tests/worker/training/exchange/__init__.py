"""Tests of the exchange algorithms."""
