"""Tests of what the master serves to browsers."""
