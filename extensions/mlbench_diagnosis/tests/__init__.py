"""The evidence of ranks, the judgement on it, and profiles."""
