"""Tests of what everyone holds in hand."""
