"""Tests of what the agent hears and reads for unmodified code."""
