"""A master made for tests, whose clock is 100 s behind: it gives an agent one assignment."""

import json
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.scripted import Asked, Reply

BEHIND_SECONDS = 100.0


@dataclass
class Master:
    """Gives an agent one assignment, and takes its streams."""

    url: str = ""
    assignment: dict[str, Any] = field(default_factory=dict)
    reports: list[dict[str, Any]] = field(default_factory=list)
    streams: dict[str, bytes] = field(default_factory=dict)

    def answer(self, asked: Asked) -> Reply:
        """Answer a poll, or take a piece of a stream."""
        if asked.method == "PUT":
            url = urlsplit(asked.path)
            name, [offset] = url.path.rpartition("/")[2], parse_qs(url.query)["offset"]
            held = self.streams.get(name, b"")
            self.streams[name] = held[: int(offset)] + asked.body
            return Reply(body={"offset": len(self.streams[name]), "next_ship_seconds": 0.1})
        self.reports.append(report := json.loads(asked.body))
        shipped = all(
            len(self.streams.get(name, b"")) == size
            for name, size in report.get("sizes", {"": 1}).items()
        )
        do = "start" if len(self.reports) == 1 else "stop" if shipped else "wait"
        body = {"do": do, "next_poll_seconds": 0.05, "time": time.time() - BEHIND_SECONDS}
        return Reply(body=body | {"assignment": self.assignment if do == "start" else None})
