"""Diagnosis of hangs, stacks, and profiles of ranks."""
