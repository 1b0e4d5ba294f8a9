"""Tests of the modules of the page of one run."""
