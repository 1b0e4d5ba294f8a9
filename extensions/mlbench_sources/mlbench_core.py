"""The part of the original MLBench's API that training code calls: records the posted values.

MLBench's library posts each value as a form, with its date. The name ends with the rank, and the
metadata contains the epoch. ``hook/sitecustomize.py`` directs the library to this server.
"""

import os
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

from mlbench.contract import names
from mlbench.contract.assignment import Assignment
from mlbench.contract.limits import MAX_METRIC_NAME_LENGTH
from mlbench_sources.http_receiver import (
    HttpReceiver,
    ReceiverRequest,
    ReceiverResponse,
    refusal,
)
from mlbench_worker.agent.sources import Line

HOOK = Path(__file__).with_name("hook")
"""The folder with the module that each Python of a run imports at its start, also in a bundle."""

_METRICS, _RUNS = "/api/metrics", "/api/runs"
_NAME = re.compile(r"(.+) @ (\d+)", re.ASCII | re.DOTALL)
_EPOCH = re.compile(r"\{rank: \d+, epoch: ?([\d.]+)\}", re.ASCII)


class _Goal(NamedTuple):
    """The message of a reached goal of MLBench, with the goal's value in the first group."""

    message: re.Pattern[str]
    metric: str
    lower_is_better: bool = False


_GOALS = (
    _Goal(re.compile(r"([\d.]+)% Top 1 Validation Accuracy reached"), names.VAL_ACCURACY),
    _Goal(re.compile(r"Validation Perplexity of ([\d.]+) reached"), names.VAL_PERPLEXITY, True),
    _Goal(re.compile(r"Validation BLEU-Score of ([\d.]+) reached"), "val_global_BLEU-Score"),
)


def variables(environ: Mapping[str, str], server: HttpReceiver) -> dict[str, str]:
    """Return the variables that direct the library to this server, before the user's own path.

    Empty entries of that path, which come from unset variables, would mean the working folder.
    """
    folders = environ.get("PYTHONPATH", "").split(os.pathsep)
    path = os.pathsep.join(filter(None, (str(HOOK), *folders)))
    return {names.ENV_AGENT: server.address.removeprefix("http://"), "PYTHONPATH": path}


class Reports:
    """Records the values that a run's training code posts, and describes the run to it."""

    def __init__(self, assignment: Assignment) -> None:
        self._run_id = str(assignment.run_id)
        self._run = {
            "id": assignment.run_id,
            "state": "STARTED",
            "attempt": assignment.attempt,
            "num_workers": assignment.world_size,
            "seed": assignment.seed,
        }
        self._epochs: dict[str, str] = {}

    def answer(self, request: ReceiverRequest) -> ReceiverResponse | None:
        """Respond to a request of MLBench's client."""
        endpoint = (request.method, request.path.rstrip("/"))
        if endpoint == ("POST", _METRICS):
            posted = request.form()
            return ReceiverResponse(posted, HTTPStatus.CREATED, tuple(self._lines(posted)))
        if endpoint == ("GET", f"{_RUNS}/{self._run_id}"):
            return ReceiverResponse(self._run)
        if request.path.startswith((_METRICS, _RUNS)):
            words = "a run's code can post values of its run here, and get that run, nothing else"
            return refusal(HTTPStatus.NOT_FOUND, words)
        return None

    def _lines(self, posted: Mapping[str, str]) -> Iterator[Line]:
        if posted.get("run_id") != self._run_id:
            raise ValueError(f"run_id: this code is part of run {self._run_id} and no other")
        name, value = posted.get("name", ""), posted.get("value", "")
        if not 0 < len(name) <= MAX_METRIC_NAME_LENGTH:
            raise ValueError(f"name: must be a text of 1 to {MAX_METRIC_NAME_LENGTH} characters")
        match = _NAME.fullmatch(name)
        metric, rank = match.groups() if match else (name, "")
        date = posted.get("date")
        try:
            posted_at = datetime.fromisoformat(date) if date is not None else datetime.now(UTC)
        except ValueError:
            words = f"date: a date such as 2026-03-01 09:21:30.5 (not {date!r:.40})"
            raise ValueError(words) from None
        if posted_at.tzinfo is None:
            posted_at = posted_at.replace(tzinfo=UTC)
        place: dict[str, object] = {"time": posted_at.timestamp()}
        if rank:  # otherwise, the value belongs to the worker's own rank
            place["rank"] = rank
        for goal in _GOALS if metric == names.TASK_RESULT else ():
            if reached := goal.message.match(value):
                target = {
                    "metric": goal.metric,
                    "value": float(reached[1]),
                    "lower_is_better": goal.lower_is_better,
                }
                yield {"time": place["time"], "goal": target}
                break
        epoch = _EPOCH.fullmatch(posted.get("metadata", ""))
        # Other metrics may have the number of the next epoch before it begins.
        begun = epoch is not None and metric.startswith(("train_", "CumulativeTrainTimeEpoch"))
        if epoch and begun and self._epochs.get(rank) != epoch[1]:
            self._epochs[rank] = epoch[1]
            yield {**place, "name": names.EPOCH, "value": epoch[1]}
        line = {**place, "name": metric, "value": value}
        if posted.get("metadata"):
            line["metadata"] = posted["metadata"]
        if posted.get("cumulative") == "True":
            line["cumulative"] = True
        yield line
