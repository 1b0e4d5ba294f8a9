"""The agent's ``/metrics``: which rank it runs, and what the training process publishes.

The process publishes by prometheus-client's files, where anything else may lie instead. They are
read with bounds, and of the names that others rely on, only the process's own totals pass.
"""

import json
import logging
import os
import re
import stat
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.mmap_dict import _read_all_values
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from mlbench import names
from worker.agent.attempt import Attempt

log = logging.getLogger(__name__)

_MOST_FILES: Final = 1000
# The totals of one process take 4 KiB. What is read keeps the agent busy for half a second at most.
_MOST_BYTES_OF_A_FILE: Final = 128 << 10
_MOST_BYTES: Final = 768 << 10
# Fewer than Prometheus takes of an agent: it must never refuse the agent's own series.
_MOST_SERIES: Final = 2000
_MOST_LABELS: Final = 16
_LONGEST_NAME: Final = 100
_LONGEST_VALUE: Final = 500
_MOST_TOLD: Final = 10

_FILE = re.compile(r"(counter|histogram|summary|gauge_([a-z]+))_(\w+)\.db")
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_SUFFIXES = frozenset({"", "_total", "_sum", "_count", "_bucket", "_created"})

_OF_OTHERS = re.compile(r"(mlbench_|container_|machine_|node_|kube|scrape_|ALERTS).*|up")
_HISTOGRAM = names.WORKER_STEP_SECONDS
_OWN: Final[Mapping[str, tuple[str, frozenset[str]]]] = {
    names.WORKER_STEPS: ("counter", frozenset()),
    names.WORKER_SAMPLES: ("counter", frozenset()),
    names.WORKER_PHASE_SECONDS: ("counter", frozenset({"phase"})),
    f"{_HISTOGRAM}_bucket": ("histogram", frozenset({"le"})),
    f"{_HISTOGRAM}_sum": ("histogram", frozenset()),
    names.WORKER_PROGRESS: ("gauge", frozenset()),
}
"""The series of mlbench.totals: their kind, and their labels beside run and rank."""

_PARSING_ERRORS = (ValueError, TypeError, RuntimeError, RecursionError, struct.error)


class WorkerCollector(Collector):
    """Collects the series of the current attempt, or of the last one until the next begins."""

    def __init__(self, pod: str) -> None:
        self._pod = pod
        self._idle = True
        self._attempt: Attempt | None = None
        self._told: Attempt | None = None
        """The attempt whose omissions are logged already."""

    def show(self, attempt: Attempt) -> None:
        """Collect the series of an attempt from now on."""
        self._attempt, self._idle = attempt, False

    def show_idle(self) -> None:
        """Report that no rank runs; the last totals stay for the next scrape."""
        self._idle = True

    def collect(self) -> Iterator[Metric]:
        """Yield the worker's clock and info, and the totals summed over its processes."""
        attempt = self._attempt
        yield GaugeMetricFamily(names.WORKER_TIME, "The worker's clock, Unix time.", time.time())
        rank = ("", "") if attempt is None or self._idle else _run_and_rank(attempt)
        info = GaugeMetricFamily(
            names.WORKER_INFO,
            "Which run and rank the worker has; both empty while it is idle.",
            labels=("pod", "run_id", "rank"),
        )
        info.add_metric((self._pod, *rank), 1.0)
        yield info
        if attempt is None:
            return
        running = GaugeMetricFamily(
            names.WORKER_RUNNING,
            "Whether the training process lives: 1, or 0 once it has ended.",
            labels=("run_id", "rank"),
        )
        running.add_metric(_run_and_rank(attempt), attempt.exit is None)
        yield running
        run_id, own_rank = _run_and_rank(attempt)
        published = read_published(attempt.counters, {"run_id": run_id, "rank": own_rank})
        self._tell(attempt, published)
        yield from published.families

    def _tell(self, attempt: Attempt, published: "Published") -> None:
        """Log the process's series that are left out, once for an attempt."""
        if published.left_out and self._told is not attempt:
            self._told = attempt
            left_out = "; ".join(published.left_out)
            log.warning("series of %s that are left out: %s", attempt.folder.name, left_out)


def _run_and_rank(attempt: Attempt) -> tuple[str, str]:
    return str(attempt.assignment.run_id), str(attempt.assignment.rank)


@dataclass(frozen=True)
class Published:
    """The series of a process that are passed on."""

    families: Sequence[Metric]
    left_out: Sequence[str]
    """Some of the series that were left out, and why."""


@dataclass(frozen=True)
class _Content:
    """The content of a file, or the beginning of it."""

    name: str
    kind: str
    mode: str
    """Of a gauge: how the values of several processes are combined."""
    process: str
    data: bytes


def read_published(folder: Path, rank: Mapping[str, str]) -> Published:
    """Return the series of a process, summed over its subprocesses.

    Args:
        folder: holds prometheus-client's files; it need not exist.
        rank: the labels of the process's run and rank, which its own totals must have.
    """
    left_out: dict[str, None] = {}
    families: dict[str, Metric] = {}
    for content in _read_files(folder, left_out):
        _collect(families, content, rank, left_out)
    passed: list[Metric] = []
    room = _MOST_SERIES
    # Our own series first; the others get the room that is left.
    for family in sorted(families.values(), key=lambda one: _OF_OTHERS.match(one.name) is None):
        summed = _sum_up(family, left_out)
        if len(summed) > room:
            left_out[f"{family.name}: {len(summed)} series are too many"] = None
        elif summed:
            room -= len(summed)
            family.samples = summed
            passed.append(family)
    return Published(passed, list(left_out)[:_MOST_TOLD])


def _read_files(folder: Path, left_out: dict[str, None]) -> Iterator[_Content]:
    """Yield the content of the files, up to a limit for all together."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        left_out[f"{folder.name}: {error.strerror}"] = None
        return
    try:
        with os.scandir(descriptor) as entries:
            found = sorted(entry.name for entry in islice(entries, _MOST_FILES + 1))
        if len(found) > _MOST_FILES:
            left_out[f"more than {_MOST_FILES} files"] = None
        room = _MOST_BYTES
        for name in found[:_MOST_FILES]:
            if match := _FILE.fullmatch(name):
                data = _read_file(name, descriptor, min(room, _MOST_BYTES_OF_A_FILE), left_out)
                room -= len(data)
                kind, mode, process = match.groups()
                yield _Content(name, kind.partition("_")[0], mode or "", process, data)
    finally:
        os.close(descriptor)


def _read_file(name: str, folder: int, most: int, left_out: dict[str, None]) -> bytes:
    """Return the used part of a regular file; nothing of anything else."""
    try:
        # Non-blocking, so as not to wait for the writer of a named pipe.
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError as error:
        left_out[f"{name}: {error.strerror}"] = None
        return b""
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            left_out[f"{name}: it is no regular file"] = None
            return b""
        used = int.from_bytes(os.pread(file, 4, 0), "little")
        if used > most:
            left_out[f"{name}: only its first {most:,} bytes are read"] = None
        return os.pread(file, min(used, most), 0)
    except OSError as error:
        left_out[f"{name}: {error.strerror}"] = None
        return b""
    finally:
        os.close(file)


def _collect(
    families: dict[str, Metric],
    content: _Content,
    rank: Mapping[str, str],
    left_out: dict[str, None],
) -> None:
    """Add a file's entries to the families, up to the first that is malformed."""
    try:
        for key, value, timestamp, _ in _entries(content.data):
            family_name, name, labels, help_text = json.loads(key)
            if not _may_pass(content.kind, family_name, name, labels, rank):
                if len(left_out) < _MOST_TOLD:
                    left_out[f"{str(name)[:_LONGEST_NAME]!r} is not its to publish"] = None
                continue
            family = families.get(family_name)
            if family is None:
                family = families[family_name] = Metric(family_name, str(help_text), content.kind)
                family._multiprocess_mode = content.mode  # type: ignore[attr-defined]
            if family.type != content.kind:
                continue
            of_process = [("pid", content.process)] if content.kind == "gauge" else []
            told: Any = (*sorted(labels.items()), *of_process)
            family.add_sample(name, told, value, timestamp if of_process else None)
    except _PARSING_ERRORS as error:
        left_out[f"{content.name}: {error}"] = None


def _entries(data: bytes) -> Iterator[tuple[str, float, float, int]]:
    return _read_all_values(data, len(data)) if data else iter(())


def _may_pass(kind: str, family: Any, name: Any, labels: Any, rank: Mapping[str, str]) -> bool:
    """Return whether a series is well formed and the process may publish it."""
    if not (_is_name(family) and _is_name(name) and _are_labels(labels)):
        return False
    if not name.startswith(family) or name.removeprefix(family) not in _SUFFIXES:
        return False
    if not _OF_OTHERS.fullmatch(name) and not _OF_OTHERS.fullmatch(family):
        return True
    own_kind, more = _OWN.get(name, ("", frozenset()))
    return (
        kind == own_kind
        and labels.keys() == rank.keys() | more
        and all(labels[label] == value for label, value in rank.items())
        and labels.get("phase", names.PHASES[0]) in names.PHASES
    )


def _is_name(text: Any) -> bool:
    return isinstance(text, str) and len(text) <= _LONGEST_NAME and bool(_NAME.fullmatch(text))


def _are_labels(labels: Any) -> bool:
    return (
        isinstance(labels, dict)
        and len(labels) <= _MOST_LABELS
        and all(_is_name(name) and not name.startswith("__") for name in labels)
        and all(_is_value(value) for value in labels.values())
    )


def _is_value(text: Any) -> bool:
    return isinstance(text, str) and len(text) <= _LONGEST_VALUE


def _sum_up(family: Metric, left_out: dict[str, None]) -> list[Sample]:
    """Return a family's samples, one for each series; none if they are malformed."""
    try:
        [summed] = MultiProcessCollector._accumulate_metrics({family.name: family}, accumulate=True)
    except _PARSING_ERRORS as error:
        left_out[f"{family.name}: {error}"] = None
        return []
    samples: list[Sample] = summed.samples
    return samples
