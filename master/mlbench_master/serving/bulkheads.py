"""Bulkheads: each kind of request has its own threads, so that no kind waits for another."""

from enum import Enum, unique


@unique
class Bulkhead(Enum):
    """A kind of request, with its number of threads and how many requests may wait for them."""

    POLLS = (16, 4096)
    """Polls of agents, joining ranks, and the heartbeat of the master itself."""
    STREAMS = (8, 4096)
    """Streams of agents."""
    PROBES = (2, 64)
    """Requests of probes and of Prometheus, which need no token."""
    OTHERS = (12, 512)
    """Requests of users."""
    SLOW = (4, 64)
    """Requests whose body a thread reads: too large to wait for, or of unknown length."""

    def __init__(self, threads: int, most_waiting: int) -> None:
        self.threads = threads
        self.most_waiting = most_waiting


def bulkhead_of(method: str, path: str) -> Bulkhead:
    """Return the bulkhead of a request whose whole body can be waited for."""
    # The path may begin with $MLBENCH_ROOT_PATH.
    match (method, *path.strip("/").split("/")):
        case (
            ("POST", *_, "api", "workers", _, "poll")
            | ("POST", *_, "api", "join")
            | ("POST", "heartbeat")
        ):
            return Bulkhead.POLLS
        case ("PUT", *_, "api", "runs", _, "ranks", _, _):
            return Bulkhead.STREAMS
        case ("GET" | "HEAD", "healthz" | "readyz" | "metrics"):
            return Bulkhead.PROBES
    return Bulkhead.OTHERS
