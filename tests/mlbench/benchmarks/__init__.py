"""Tests of the official benchmarks, their options and rules."""
