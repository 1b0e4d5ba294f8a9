"""Tests of bodies, errors and access."""
