"""Tests of archives, and of the values that are read from them."""
