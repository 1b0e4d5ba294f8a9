"""Evidence from ranks, verdicts, and profiles."""
