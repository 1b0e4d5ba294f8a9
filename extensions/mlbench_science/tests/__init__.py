"""Fault injection, predictions, and the analysis of sweeps."""
