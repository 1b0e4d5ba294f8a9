"""Tests of ``master.runs``."""
