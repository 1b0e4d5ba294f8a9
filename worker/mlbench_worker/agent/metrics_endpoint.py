"""The agent's ``/metrics``: its rank, the rank's interference, and the series of its process.

The process publishes series in files of prometheus-client, which it may have filled with anything.
They are read with limits. Names reserved for MLBench and other exporters do not pass: the totals of
the process are in files of their own.
"""

import json
import logging
import math
import os
import re
import struct
import time
from collections.abc import Iterator, Mapping
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.mmap_dict import _read_all_values
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from mlbench.contract import names
from mlbench.tracking.totals import STEP_BOUNDS, Totals
from mlbench_worker.agent.attempt import Attempt
from mlbench_worker.agent.cpu_contention import collect
from mlbench_worker.agent.stream_files import open_regular

log = logging.getLogger(__name__)

_MAX_FILES: Final = 1000
_MAX_BYTES: Final = 768 << 10
"""Maximum size of all files, which keeps the agent busy for half a second at most."""
_MAX_SERIES: Final = 2000
"""Maximum number of published series, below Prometheus's limit for all series of an agent."""
_MAX_NAME_LENGTH: Final = 100
_MAX_LOGGED: Final = 10
"""Maximum number of omitted series that are logged."""

_FILE = re.compile(r"(counter|histogram|summary|gauge_([a-z]+))_(\w+)\.db")
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")

_OF_OTHERS = re.compile(r"(mlbench_|container_|machine_|node_|kube|scrape_|ALERTS).*|up")
_PARSING_ERRORS = (ValueError, TypeError, RuntimeError, RecursionError, struct.error)

LeftOut = dict[str, None]
"""Descriptions of omitted series, each once."""


class WorkerCollector(Collector):
    """Collects the series of the current attempt, or of the last one until the next begins.

    Measurements of the whole worker are labelled with the rank of its first process.
    """

    def __init__(self, pod: str) -> None:
        self._pod = pod
        self._idle = True
        self._attempt: Attempt | None = None
        self._logged: Attempt | None = None
        """The attempt whose omitted series are already logged."""

    def show(self, attempt: Attempt) -> None:
        """Collect the series of an attempt from now on."""
        self._attempt, self._idle = attempt, False

    def show_idle(self) -> None:
        """Report that no rank runs. The last totals stay for the next scrape."""
        self._idle = True

    def collect(self) -> Iterator[Metric]:
        """Yield the worker's clock and info, and the totals summed over its processes."""
        attempt = self._attempt
        yield GaugeMetricFamily(names.WORKER_TIME, "The worker's clock, Unix time.", time.time())
        run_id, ranks, totals = "", [""], dict[int, Totals]()
        if attempt is not None:
            run_id, totals = str(attempt.assignment.run_id), attempt.totals()
            ranks = [*map(str, totals)] or [str(attempt.assignment.rank)]
        info = GaugeMetricFamily(
            names.WORKER_INFO,
            "Which run and rank the worker has; both empty while it is idle.",
            labels=("pod", "run_id", "rank"),
        )
        for rank in [""] if self._idle else ranks:
            info.add_metric((self._pod, run_id if rank else "", rank), 1.0)
        yield info
        if attempt is None:
            return
        running = GaugeMetricFamily(
            names.WORKER_RUNNING,
            "Whether the training process lives: 1, or 0 once it has ended.",
            labels=("run_id", "rank"),
        )
        for rank in ranks:
            running.add_metric((run_id, rank), attempt.exit is None)
        yield running
        if attempt.measured is not None:
            yield from collect(attempt.measured, {"run_id": run_id, "rank": ranks[0]})
        yield from _collect_totals(run_id, totals)
        left_out: LeftOut = {}
        yield from read_published(attempt, left_out)
        if left_out and self._logged is not attempt:
            self._logged = attempt
            reasons = "; ".join(islice(left_out, _MAX_LOGGED))
            log.warning("series of %s that are left out: %s", attempt.folder.name, reasons)


def _collect_totals(run_id: str, totals: Mapping[int, Totals]) -> Iterator[Metric]:
    """Yield the totals of a worker's processes by rank."""
    labels = ("run_id", "rank")
    steps = CounterMetricFamily(names.WORKER_STEPS, "Training steps done.", labels=labels)
    samples = CounterMetricFamily(names.WORKER_SAMPLES, "Training samples seen.", labels=labels)
    phases = CounterMetricFamily(
        names.WORKER_PHASE_SECONDS, "Time spent by phase.", labels=(*labels, "phase")
    )
    durations = HistogramMetricFamily(
        names.WORKER_STEP_SECONDS, "Duration of a step, evaluation left out.", labels=labels
    )
    progress = GaugeMetricFamily(
        names.WORKER_PROGRESS, "Time of the last step or start of an evaluation.", labels=labels
    )
    bounds = [*map(floatToGoString, (*STEP_BOUNDS, math.inf))]
    for rank, t in totals.items():
        place = (run_id, str(rank))
        steps.add_metric(place, t.steps)
        samples.add_metric(place, t.samples)
        for phase, seconds in zip(names.PHASES, t.phase_seconds, strict=True):
            phases.add_metric((*place, phase), seconds)
        buckets = [*zip(bounds, accumulate(t.step_counts), strict=True)]
        durations.add_metric(place, buckets, t.step_seconds)
        progress.add_metric(place, t.progress_at)
    yield from (steps, samples, phases, durations, progress)


def read_published(attempt: Attempt, left_out: LeftOut) -> list[Metric]:
    """Return the series that a worker's processes publish, summed over the processes.

    Descriptions of omitted series are added to ``left_out``.
    """
    families: dict[str, Metric] = {}
    for file, data in _read_files(attempt.counters, left_out):
        _collect(families, file, data, left_out)
    passed: list[Metric] = []
    room = _MAX_SERIES
    for family in families.values():
        one_family = {family.name: family}
        try:
            [summed] = MultiProcessCollector._accumulate_metrics(one_family, accumulate=True)
        except _PARSING_ERRORS as error:
            left_out[f"{family.name}: {error}"] = None
            continue
        samples = list(summed.samples)
        if len(samples) > room:
            left_out[f"{family.name}: {len(samples)} series are too many"] = None
        elif samples:
            room -= len(samples)
            family.samples = samples
            passed.append(family)
    return passed


def _read_files(folder: Path, left_out: LeftOut) -> Iterator[tuple[re.Match[str], bytes]]:
    """Yield the files, as ``_FILE`` matches their names, and their used parts up to a limit."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        left_out[f"{folder.name}: {error.strerror}"] = None
        return
    try:
        with os.scandir(descriptor) as entries:
            names_found = sorted(entry.name for entry in islice(entries, _MAX_FILES + 1))
        if len(names_found) > _MAX_FILES:
            left_out[f"more than {_MAX_FILES} files"] = None
        room = _MAX_BYTES
        for file in filter(None, map(_FILE.fullmatch, names_found[:_MAX_FILES])):
            content = open_regular(Path(file[0]), descriptor)
            if content is None:
                left_out[f"{file[0]}: it is no regular file that can be read"] = None
                continue
            most = min(room, 128 << 10)  # the totals of one process take 4 KiB
            data = b""
            try:
                used = int.from_bytes(os.pread(content, 4, 0), "little")
                if used > most:
                    left_out[f"{file[0]}: only its first {most:,} bytes are read"] = None
                data = os.pread(content, min(used, most), 0)
            except OSError as error:
                left_out[f"{file[0]}: {error.strerror}"] = None
            finally:
                os.close(content)
            room -= len(data)
            yield file, data
    finally:
        os.close(descriptor)


def _collect(
    families: dict[str, Metric], file: re.Match[str], data: bytes, left_out: LeftOut
) -> None:
    """Add a file's entries to the families, up to the first that is malformed."""
    kind, mode, process = file[1].partition("_")[0], file[2] or "", file[3]
    try:
        for key, value, timestamp, _ in _read_all_values(data, len(data)) if data else ():
            family_name, name, labels, help_text = json.loads(key)
            if not _may_pass(family_name, name, labels):
                if len(left_out) < _MAX_LOGGED:
                    left_out[f"{str(name)[:_MAX_NAME_LENGTH]!r} is not its to publish"] = None
                continue
            family = families.get(family_name)
            if family is None:
                family = families[family_name] = Metric(family_name, str(help_text), kind)
                family._multiprocess_mode = mode  # type: ignore[attr-defined]
            if family.type != kind:
                continue
            process_label = [("pid", process)] if kind == "gauge" else []
            sample_labels: Any = (*sorted(labels.items()), *process_label)
            family.add_sample(name, sample_labels, value, timestamp if process_label else None)
    except _PARSING_ERRORS as error:
        left_out[f"{file[0]}: {error}"] = None


def _may_pass(family: Any, name: Any, labels: Any) -> bool:
    """Check that a series is well formed, and that the process may publish it."""
    if not (_is_name(family) and _is_name(name) and isinstance(labels, dict) and len(labels) <= 16):
        return False
    if not all(_is_name(label) and not label.startswith("__") for label in labels):
        return False
    if not all(isinstance(value, str) and len(value) <= 500 for value in labels.values()):
        return False
    suffixes = ("", "_total", "_sum", "_count", "_bucket", "_created")
    if not name.startswith(family) or name.removeprefix(family) not in suffixes:
        return False
    return not (_OF_OTHERS.fullmatch(name) or _OF_OTHERS.fullmatch(family))


def _is_name(text: Any) -> bool:
    return isinstance(text, str) and len(text) <= _MAX_NAME_LENGTH and bool(_NAME.fullmatch(text))
