"""Tests of the code that benchmark tasks share."""
