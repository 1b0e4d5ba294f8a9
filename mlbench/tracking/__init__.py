"""Tracking: the tracker, and the recording of jobs that MLBench does not start."""
