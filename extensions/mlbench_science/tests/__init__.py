"""The injection of faults into real processes."""
