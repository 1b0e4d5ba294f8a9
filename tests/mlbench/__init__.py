"""Tests of the mlbench package."""
