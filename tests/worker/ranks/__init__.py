"""Tests of ranks and their processes."""
