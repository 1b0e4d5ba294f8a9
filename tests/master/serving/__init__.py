"""Tests of how the master serves HTTP."""
