"""Experiments on runs: faults that are injected on a schedule, or by hand."""
