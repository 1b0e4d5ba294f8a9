"""Tests of the chart: what it renders, read as a cluster would read it."""
