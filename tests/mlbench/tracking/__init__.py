"""Tests of the tracker and of recording external jobs."""
