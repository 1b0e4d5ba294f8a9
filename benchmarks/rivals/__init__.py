"""The API beside what a user would pick instead: MLBench's own dashboard, and MLflow."""

from benchmarks.rivals.compare import measure

__all__ = ["measure"]
