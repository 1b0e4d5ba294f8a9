"""Tests of ``mlbench_master.runs``."""
