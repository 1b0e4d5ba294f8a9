"""MLBench's original API, as far as training code calls it: what it posts becomes recorded values.

MLBench's library posts each value as a form, with its date; the name ends with the rank, and the
metadata names the epoch. What leads it here is ``hook/sitecustomize.py``.
"""

import os
import re
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

from mlbench.contract import names
from mlbench.contract.assignment import Assignment
from mlbench.contract.limits import MAX_METRIC_NAME_LENGTH
from mlbench_worker.agent.sources.loopback import Answer, Line, Loopback, Request, refusal

HOOK = Path(__file__).with_name("hook")
"""The folder of what each Python of a run imports as it starts. In a bundle, too."""

_METRICS, _RUNS = "/api/metrics", "/api/runs"
_NAME = re.compile(r"(.+) @ (\d+)", re.ASCII | re.DOTALL)
_EPOCH = re.compile(r"\{rank: \d+, epoch: ?([\d.]+)\}", re.ASCII)
# Others may come when the next epoch is already counted, but not begun.
_OF_A_BEGUN_EPOCH = ("train_", "CumulativeTrainTimeEpoch")


class _Goal(NamedTuple):
    """What MLBench's goals say when they are reached, with their value in the first group."""

    said: re.Pattern[str]
    metric: str
    lower_is_better: bool = False


_GOALS = (
    _Goal(re.compile(r"([\d.]+)% Top 1 Validation Accuracy reached"), names.VAL_ACCURACY),
    _Goal(re.compile(r"Validation Perplexity of ([\d.]+) reached"), names.VAL_PERPLEXITY, True),
    _Goal(re.compile(r"Validation BLEU-Score of ([\d.]+) reached"), "val_global_BLEU-Score"),
)


def variables(environ: Mapping[str, str], server: Loopback) -> dict[str, str]:
    """Return the variables that lead the library here; a path of the user's comes behind.

    Its empty entries, which unset variables leave in profiles, would be the working folder.
    """
    folders = environ.get("PYTHONPATH", "").split(os.pathsep)
    path = os.pathsep.join(filter(None, (str(HOOK), *folders)))
    return {names.ENV_AGENT: server.address.removeprefix("http://"), "PYTHONPATH": path}


class Reports:
    """Takes what a run's training code posts, and tells it what its worker knows of the run."""

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

    def answer(self, request: Request) -> Answer | None:
        """Answer a request of MLBench's client."""
        asked = (request.method, request.path.rstrip("/"))
        if asked == ("POST", _METRICS):
            posted = request.form()
            return Answer(posted, HTTPStatus.CREATED, tuple(self._lines(posted)))
        if asked == ("GET", f"{_RUNS}/{self._run_id}"):
            return Answer(self._run)
        if request.path.startswith((_METRICS, _RUNS)):
            words = "a run's code can post values of its run here, and get that run, nothing else"
            return refusal(HTTPStatus.NOT_FOUND, words)
        return None

    def _lines(self, posted: Mapping[str, str]) -> Iterator[Line]:
        if posted.get("run_id") != self._run_id:
            raise ValueError(f"run_id: this code is part of run {self._run_id} and no other")
        name, value = posted.get("name", ""), posted.get("value", "")
        if not 0 < len(name) <= MAX_METRIC_NAME_LENGTH:
            raise ValueError(f"name: a text of 1 to {MAX_METRIC_NAME_LENGTH} characters")
        named = _NAME.fullmatch(name)
        metric, rank = named.groups() if named else (name, "")
        # Without one, it is the worker's.
        place: dict[str, object] = {"time": _time(posted.get("date"))}
        if rank:
            place["rank"] = rank
        if metric == names.TASK_RESULT and (goal := _goal(value)):
            yield {"time": place["time"], "goal": goal}
        epoch = _EPOCH.fullmatch(posted.get("metadata", ""))
        begun = epoch is not None and metric.startswith(_OF_A_BEGUN_EPOCH)
        if epoch and begun and self._epochs.get(rank) != epoch[1]:
            self._epochs[rank] = epoch[1]
            yield {**place, "name": names.EPOCH, "value": epoch[1]}
        yield {**place, "name": metric, "value": value, **_note(posted)}


def _time(date: str | None) -> float:
    if date is None:
        return time.time()
    try:
        read = datetime.fromisoformat(date)
    except ValueError:
        raise ValueError(f"date: a date such as 2026-03-01 09:21:30.5 (not {date!r:.40})") from None
    return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()


def _goal(said: str) -> Line | None:
    for goal in _GOALS:
        if found := goal.said.match(said):
            wanted = {"metric": goal.metric, "value": float(found[1])}
            return {**wanted, "lower_is_better": goal.lower_is_better}
    return None


def _note(posted: Mapping[str, str]) -> Line:
    note: dict[str, object] = {"metadata": posted["metadata"]} if posted.get("metadata") else {}
    return note | ({"cumulative": True} if posted.get("cumulative") == "True" else {})
