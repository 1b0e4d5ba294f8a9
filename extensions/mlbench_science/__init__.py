"""Experiments on runs: injected faults, predictions of a change, and the analysis of sweeps."""
