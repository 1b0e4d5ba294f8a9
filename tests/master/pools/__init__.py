"""Tests of the pools, which provide worker pods."""
