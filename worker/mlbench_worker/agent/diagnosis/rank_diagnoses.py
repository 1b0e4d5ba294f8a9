"""Diagnoses and profiles that the master requests of a rank: each is done once, in a thread."""

import json
import logging
import threading
from collections.abc import Callable
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from mlbench_worker.agent.attempt import Attempt
from mlbench_worker.agent.master_client import MasterClient, PollResponse, send_patiently

log = logging.getLogger(__name__)


class Diagnoses:
    """Examines a rank when the master requests it, and sends the results."""

    def __init__(self, connect: Callable[[], MasterClient]) -> None:
        self._connect = connect
        self._last: dict[str, int] = {}

    def follow(self, reply: PollResponse, pod: str, attempt: Attempt, root: int | None) -> None:
        """Start a thread for each request in a reply that is new.

        The rank's processes are ``root`` and its descendants; None if the rank has not started.
        """

        def diagnose() -> bytes:
            # Imported on request: most agents never need it.
            from mlbench_worker.agent.diagnosis.gather import gather  # noqa: PLC0415

            return _line(gather(attempt, root, attempt.first_totals, reply.native_rank))

        def record_profile(seconds: int) -> bytes:
            from mlbench_worker.agent.diagnosis.profiler import profile  # noqa: PLC0415

            result, content = profile(attempt, root, seconds)
            return _line(result) + b"\n" + content

        if reply.diagnosis is not None:
            self._begin(pod, "diagnoses", reply.diagnosis, diagnose)
        if reply.profile is not None:
            number, seconds = reply.profile
            self._begin(pod, "profiles", number, lambda: record_profile(seconds))

    def _begin(self, pod: str, kind: str, number: int, find: Callable[[], bytes]) -> None:
        if self._last.get(kind) == number:
            return
        path = f"/api/workers/{quote(pod)}/{kind}/{number}"

        def run() -> None:
            try:
                send_patiently(self._connect, path, find())
            except Exception:
                # The rank can train even if it cannot be examined.
                log.exception("%s cannot be done", path)

        threading.Thread(target=run, name=kind, daemon=True).start()
        self._last[kind] = number


def _line(record: Any) -> bytes:
    return json.dumps(asdict(record), ensure_ascii=False).encode(errors="replace")
