"""Tests of how the container images are made."""
