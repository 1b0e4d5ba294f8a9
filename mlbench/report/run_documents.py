"""The API's documents of the runs that a page in a file shows, from a master or from archives."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

from mlbench import archive
from mlbench.archive import Archive, SeriesName, bundle
from mlbench.client import ApiClient
from mlbench.contract.masking import mask_command
from mlbench.contract.names import (
    EPOCH,
    LOSSES,
    MLBENCH_TOTAL,
    NETWORK_RECEIVED,
    NETWORK_SENT,
    PHASES,
    SAMPLES,
    STEP,
    TRAIN_SECONDS,
)
from mlbench.contract.records import Manifest, Run
from mlbench.contract.series import SeriesKey, format_value, series_name, split_name

Points = Sequence[Mapping[str, Any]]

# A page with more points has several MB, and takes seconds to open.
_MAX_POINTS_OF_PAGE = 24_000
_MIN_POINTS, _MAX_POINTS = 20, 600
# Usual and maximum number of curves of a run, clocks left out.
_CURVES, _MAX_CURVES = 8, 20
_TOTALS = {SAMPLES, NETWORK_SENT, NETWORK_RECEIVED, *(f"{phase}_seconds" for phase in PHASES)}


@dataclass(frozen=True)
class RunDocuments:
    """Documents of a run, as the API returns them."""

    run: Mapping[str, Any]
    manifest: Mapping[str, Any]
    series: Mapping[str, Points]
    """Curves of the lowest rank, by the series' names."""
    digest: str = ""
    """SHA-256 of the run's archive; empty for a run of a master."""


ReadRuns = Callable[[Sequence[int]], Mapping[int, RunDocuments]]
"""Function that reads the documents of runs by their ids."""


def of_master(client: ApiClient) -> ReadRuns:
    """Return a function that requests the documents from a master."""

    def read(run_ids: Sequence[int]) -> Mapping[int, RunDocuments]:
        last = [client.get_run_metrics(run_id, last_n=1) for run_id in run_ids]
        names = [
            [series_name(*key) for key in curves_among(map(split_name, series.result().value))]
            for series in last
        ]
        requests = [
            (
                client.get_run(run_id),
                client.get_manifest(run_id),
                client.get_run_metrics(
                    run_id, summarize=max_points(len(run_ids)), metric_filter=of_run or [STEP]
                ),
            )
            for run_id, of_run in zip(run_ids, names, strict=True)
        ]
        documents = {}
        for run_id, (run, manifest, curves) in zip(run_ids, requests, strict=True):
            series = {
                name: [point.to_fields() for point in points]
                for name, points in curves.result().value.items()
            }
            documents[run_id] = _masked(run.result().value, manifest.result().value, series)
        return documents

    return read


def of_archives(files: Iterable[Path], digests: Mapping[int, str]) -> ReadRuns:
    """Return a function that reads archives, all digests of which must have been verified.

    ``digests`` has the digest of each run's archive.
    """

    def read(run_ids: Sequence[int]) -> Mapping[int, RunDocuments]:
        ids = {digests[run_id]: run_id for run_id in run_ids}
        documents = {}
        for file in files:
            with TemporaryDirectory() as folder:
                for path in bundle.archives_in(file, Path(folder)):
                    with archive.opened(path) as sealed:
                        if sealed.digest in ids:
                            run_id = ids[sealed.digest]
                            curves = curves_among(keys_of(sealed))
                            most = max_points(len(ids) * _CURVES)
                            documents[run_id] = of_archive(sealed, run_id, curves, most)
        return {run_id: documents[run_id] for run_id in run_ids}

    return read


def of_archive(sealed: Archive, run_id: int, keys: Iterable[SeriesKey], most: int) -> RunDocuments:
    """Return the documents of an archive's run under an id, with ``most`` points of each series."""
    document = sealed.document(archive.RUN)
    run = replace(Run.from_fields(document["run"]), id=run_id)
    manifest = replace(Manifest.from_fields(document["manifest"]), run_id=run_id)
    series = {series_name(*key): _points(sealed, SeriesName(*key), most) for key in keys}
    return _masked(run, manifest, series, sealed.digest)


def keys_of(sealed: Archive) -> list[SeriesKey]:
    """Return the series that a run has recorded."""
    return [(name.metric, name.rank) for name in sealed.series if not name.pod]


def _masked(
    run: Run, manifest: Manifest, series: Mapping[str, Points], digest: str = ""
) -> RunDocuments:
    """Return the documents without secrets, which archives of earlier versions may contain."""
    commands = [{"command": mask_command(record.command)} for record in (run, manifest)]
    return RunDocuments(
        run.to_fields() | commands[0], manifest.to_fields() | commands[1], series, digest
    )


# --- Curves ---


def max_points(series: int) -> int:
    """Return how many points each of the series on a page has at most."""
    return max(_MIN_POINTS, min(_MAX_POINTS, _MAX_POINTS_OF_PAGE // max(1, series)))


def curves_among(keys: Iterable[SeriesKey]) -> list[SeriesKey]:
    """Return the series that pages draw over any axis: no totals, and of the lowest rank only."""
    ranks: dict[str, list[str]] = {}
    for metric, rank in keys:
        if metric not in _TOTALS and not metric.startswith(MLBENCH_TOTAL):
            ranks.setdefault(metric, []).append(rank)
    lowest = {metric: min(ranks[metric], key=lambda rank: (len(rank), rank)) for metric in ranks}
    clocks = [metric for metric in (TRAIN_SECONDS, STEP, EPOCH) if metric in lowest]
    others = sorted(lowest.keys() - {*clocks}, key=lambda metric: (metric not in LOSSES, metric))
    return [(metric, lowest[metric]) for metric in (*clocks, *others[:_MAX_CURVES])]


def _points(sealed: Archive, name: SeriesName, most: int) -> Points:
    """Return at most so many points of a series, each the mean of equally many samples."""
    samples = sorted(
        (time_us, value)
        for piece in sealed.read(name)
        for i, (time_us, value) in enumerate(zip(piece.times_us, piece.values, strict=True))
        if i not in piece.more or piece.more[i].text is None
    )
    size = -(-len(samples) // most)
    return [_mean(samples[start : start + size]) for start in range(0, len(samples), max(1, size))]


def _mean(samples: Sequence[tuple[int, float]]) -> Mapping[str, str]:
    times, values = zip(*samples, strict=True)
    date = datetime.fromtimestamp(round(fmean(times)) / 1e6, UTC)
    point = {"date": f"{date:%Y-%m-%dT%H:%M:%S.%fZ}", "value": format_value(fmean(values))}
    finite = [value for value in values if isfinite(value)]
    if len(values) > 1 and finite:
        point |= {"min": format_value(min(finite)), "max": format_value(max(finite))}
    return point
