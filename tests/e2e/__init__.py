"""Tests of the whole system on a real cluster, run by `make e2e` only."""
