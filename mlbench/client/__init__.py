"""The client of the master's REST API."""

from mlbench.client.answers import Answer, ApiError, NoAnswerError
from mlbench.client.api import ApiClient
from mlbench.client.discovery import DiscoveryError
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
