"""Tests of the benchmark tasks, as real processes."""
