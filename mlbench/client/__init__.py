"""The client of the master's REST API."""

from mlbench.client.answers import Answer
from mlbench.client.api import ApiClient
from mlbench.client.logs import LogMatch, LogPage, LogSearch
from mlbench.client.metrics import Format
from mlbench.client.points import Point, Sample, Series
from mlbench.client.records import (
    Benchmark,
    Delivery,
    Goal,
    Info,
    Pod,
    Rank,
    Run,
    RunEvent,
    RunLimits,
)
from mlbench.errors import ApiError, DiscoveryError, NoAnswerError

__all__ = [
    "Answer",
    "ApiClient",
    "ApiError",
    "Benchmark",
    "Delivery",
    "DiscoveryError",
    "Format",
    "Goal",
    "Info",
    "LogMatch",
    "LogPage",
    "LogSearch",
    "NoAnswerError",
    "Pod",
    "Point",
    "Rank",
    "Run",
    "RunEvent",
    "RunLimits",
    "Sample",
    "Series",
]
