"""Tests of the evaluation of runs."""
