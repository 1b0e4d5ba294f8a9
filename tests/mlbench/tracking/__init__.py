"""Tests of the tracker and of the recording of external jobs."""
