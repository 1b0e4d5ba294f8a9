"""Experiments on runs: injected faults, and predictions of a change."""
