"""The client of the master's REST API."""

from mlbench.client.answers import Answer, ApiError, NoAnswerError
from mlbench.client.api import ApiClient
from mlbench.client.discovery import DiscoveryError
from mlbench.client.metrics import Format
from mlbench.client.records import (
    Benchmark,
    Delivery,
    Goal,
    LogPage,
    Pod,
    Point,
    Rank,
    Run,
    Sample,
    Series,
)

__all__ = [
    "Answer",
    "ApiClient",
    "ApiError",
    "Benchmark",
    "Delivery",
    "DiscoveryError",
    "Format",
    "Goal",
    "LogPage",
    "NoAnswerError",
    "Pod",
    "Point",
    "Rank",
    "Run",
    "Sample",
    "Series",
]
