"""Pages of the web interface as files: a comparison, a benchmark set, and a run.

A page contains the API's responses about its runs, which are read from a master or from archives.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import ceil, isfinite
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

from mlbench import archive
from mlbench.archive import Archive, SeriesName, bundle
from mlbench.client import ApiClient
from mlbench.client.base import api_path
from mlbench.contract import names
from mlbench.contract.comparisons import Comparison
from mlbench.contract.distribution import own_version
from mlbench.contract.masking import mask_command
from mlbench.contract.records import Manifest, Run, RunMetric, RunSet
from mlbench.contract.results import Result
from mlbench.contract.series import SeriesKey, format_value, series_name, split_name
from mlbench.evaluation.official_rules import progress
from mlbench.evaluation.sweeps import RunSummaryMetrics, analyze
from mlbench.report.statement import commands, processors, subtitle, title

Points = Sequence[Mapping[str, Any]]

_SHORT = 12  # digits of a digest in a list


@dataclass(frozen=True)
class FilePage:
    """A page of the web interface that becomes a file."""

    template: str
    """Name of its template, such as ``compare``."""
    title: str
    responses: Mapping[str, Any]
    """Responses of the API, by path; a query is part of the path, except for metrics."""
    address: str = ""
    """Query of the page's address, such as ``?runs=1,2``."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Links to other files, by the paths of their pages, such as ``/runs/1``."""
    about: Sequence[tuple[str, str]] = ()
    """Names and texts of the page's statement on its data, by which it can be cited."""
    archive: str = ""
    """Link to the archive with all recorded samples."""
    commands: Sequence[str] = ()
    """Commands that reproduce the data."""
    variables: Mapping[str, object] = field(default_factory=dict)
    """Variables of the template."""


@dataclass(frozen=True)
class RunDocuments:
    """A run on a page."""

    run: Run
    manifest: Manifest
    series: Mapping[str, Points]
    """Curves of the lowest rank, by the series' names."""
    digest: str = ""
    """SHA-256 of the run's archive; empty for a run of a master."""


ReadRuns = Callable[[Sequence[int]], Mapping[int, RunDocuments]]
"""Function that reads the documents of runs by their ids."""


# --- Pages ---


def comparison_page(comparison: Comparison, runs: Mapping[int, RunDocuments]) -> FilePage:
    """Return the page that compares runs."""
    ids = ",".join(map(str, runs))
    return FilePage(
        "compare",
        title(comparison),
        {f"/api/compare/?runs={ids}": comparison.to_fields(), **_responses(runs)},
        address=f"?runs={ids}",
        about=[("comparison", f"{title(comparison)}; {subtitle(comparison)}"), *_about(runs)],
    )


def set_page(run_set: RunSet, comparison: Comparison, runs: Mapping[int, RunDocuments]) -> FilePage:
    """Return the page of a benchmark set, with the comparison of its counted runs."""
    page, path = comparison_page(comparison, runs), api_path("sets", run_set.name)
    figures = {
        run.run_id: RunSummaryMetrics(
            run.seconds_to_target, run.samples_per_second, run.wall_seconds
        )
        for run in comparison.results
    }
    analysis = analyze(run_set, figures)
    # Sets of earlier versions have no progress.
    run_set = replace(run_set, progress=progress(run_set.slots, run_set.waiting))
    own = {path: run_set.to_fields(), f"{path}analysis/": analysis.to_fields()}
    return replace(
        page,
        template="set",
        title=f"Set {run_set.name}",
        responses={**own, **page.responses},
        variables={"set_name": run_set.name},
    )


def run_page(sealed: Archive, archive_link: str) -> FilePage:
    """Return the page of the run in an archive, to which the page links."""
    document, keys = sealed.document(archive.RUN), _keys_of(sealed)
    run_id, path = document["run"]["id"], api_path("runs", document["run"]["id"])
    runs = {run_id: _of_archive(sealed, run_id, keys, max_points(len(keys)))}
    run = runs[run_id].run
    responses = {
        **_responses(runs),
        f"{path}result/": Result.from_fields(document["result"]).to_fields(),
        f"{path}events/": document["events"],
        **{f"{path}{name}/": [] for name in ("alerts", "files", "profiles")},
        **{"/api/alerts/": [], "/api/benchmarks/": [], "/api/info/": {}},
    }
    return FilePage(
        "run",
        run.title,
        responses,
        about=[*_about(runs), ("archive's digest", f"SHA-256 {sealed.digest}")],
        archive=archive_link,
        commands=commands(run, runs[run_id].manifest, archive_link.rpartition("/")[2]),
        variables={"run_id": run_id},
    )


def _responses(runs: Mapping[int, RunDocuments]) -> dict[str, Any]:
    """Return the API's responses about runs, by their paths."""
    responses: dict[str, Any] = {}
    for run_id, documents in runs.items():
        path = api_path("runs", run_id)
        for place, record in ((path, documents.run), (f"{path}manifest/", documents.manifest)):
            # Archives of earlier versions may contain secrets.
            responses[place] = record.to_fields() | {"command": mask_command(record.command)}
        keys = [split_name(name) for name in documents.series]
        without_ranks = {metric for metric, rank in keys if not rank}
        metrics = [RunMetric(name, name not in without_ranks) for name in sorted(dict(keys))]
        responses[f"{path}metrics/"] = [metric.to_fields() for metric in metrics]
        responses[api_path("metrics", run_id)] = documents.series
    return responses


def _about(runs: Mapping[int, RunDocuments]) -> Iterator[tuple[str, str]]:
    """Yield what identifies the runs: ids, digests, seeds, processors and versions."""
    archives = {i: f", archive {run.digest[:_SHORT]}" * bool(run.digest) for i, run in runs.items()}
    titles = [f"{i} ({run.run.title}{archives[i]})" for i, run in runs.items()]
    manifests = [run.manifest for run in runs.values()]
    seeds = sorted({manifest.seed for manifest in manifests if manifest.seed is not None})
    versions = sorted({manifest.versions.mlbench for manifest in manifests})
    yield "runs" if titles[1:] else "run", ", ".join(titles)
    if seeds:
        yield "seeds" if seeds[1:] else "seed", ", ".join(map(str, seeds))
    if machines := dict.fromkeys(filter(None, map(processors, manifests))):
        yield "machines", "; ".join(machines)
    yield "recorded by", f"MLBench {', '.join(versions)}"
    yield "written", f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC by MLBench {own_version()}"


# --- Documents ---


def of_master(client: ApiClient) -> ReadRuns:
    """Return a function that requests the documents from a master."""

    def read(run_ids: Sequence[int]) -> Mapping[int, RunDocuments]:
        # The list of a run's metrics has neither their ranks nor those added after the run's end.
        last = {run_id: client.get_run_metrics(run_id, last_n=1) for run_id in run_ids}
        curves = {}
        for run_id, newest in last.items():
            keys = curves_among(map(split_name, newest.result().value))
            # Without a name, the API would return all series.
            chosen = [series_name(*key) for key in keys] or [names.STEP]
            most = max_points(len(run_ids) * _CURVES)
            curves[run_id] = client.get_run_metrics(run_id, summarize=most, metric_filter=chosen)
        runs = {run_id: (client.get_run(run_id), client.get_manifest(run_id)) for run_id in curves}
        documents = {}
        for run_id, (run, manifest) in runs.items():
            series = curves[run_id].result().value.items()
            points = {name: [point.to_fields() for point in of_name] for name, of_name in series}
            documents[run_id] = RunDocuments(run.result().value, manifest.result().value, points)
        return documents

    return read


def of_archives(files: Iterable[Path], digests: Mapping[int, str]) -> ReadRuns:
    """Return a function that reads archives, all digests of which must have been verified.

    ``digests`` has the digest of each run's archive.
    """

    def read(run_ids: Sequence[int]) -> Mapping[int, RunDocuments]:
        ids = {digests[run_id]: run_id for run_id in run_ids}
        most = max_points(len(ids) * _CURVES)
        documents = {}
        for file in files:
            with TemporaryDirectory() as folder:
                for path in bundle.archives_in(file, Path(folder)):
                    with archive.opened(path) as sealed:
                        if (run_id := ids.get(sealed.digest)) is not None:
                            curves = curves_among(_keys_of(sealed))
                            documents[run_id] = _of_archive(sealed, run_id, curves, most)
        return {run_id: documents[run_id] for run_id in run_ids}

    return read


def _of_archive(sealed: Archive, run_id: int, keys: Iterable[SeriesKey], most: int) -> RunDocuments:
    """Return the documents of an archive's run under an id, with ``most`` points of each series."""
    document = sealed.document(archive.RUN)
    # A run is sealed while the master still waits for Prometheus to take its samples.
    run = replace(Run.from_fields(document["run"]), id=run_id, waiting="")
    manifest = replace(Manifest.from_fields(document["manifest"]), run_id=run_id)
    series = {series_name(*key): _points(sealed, SeriesName(*key), most) for key in keys}
    return RunDocuments(run, manifest, series, sealed.digest)


def _keys_of(sealed: Archive) -> list[SeriesKey]:
    """Return the series that a run has recorded."""
    return [(name.metric, name.rank) for name in sealed.series if not name.pod]


# --- Curves ---

# A page with more points has several MB, and takes seconds to open.
_MAX_POINTS_OF_PAGE = 24_000
_MIN_POINTS, _MAX_POINTS = 20, 600
# Usual and maximum number of curves of a run, clocks left out.
_CURVES, _MAX_CURVES = 8, 20


def max_points(series: int) -> int:
    """Return how many points each of the series on a page has at most."""
    return max(_MIN_POINTS, min(_MAX_POINTS, _MAX_POINTS_OF_PAGE // max(1, series)))


def curves_among(keys: Iterable[SeriesKey]) -> list[SeriesKey]:
    """Return the series that pages draw over any axis: no totals, and of the lowest rank only."""
    ranks: dict[str, list[str]] = {}
    for metric, rank in keys:
        ranks.setdefault(metric, []).append(rank)
    lowest = {metric: min(ranks[metric], key=lambda rank: (len(rank), rank)) for metric in ranks}
    clocks = [name for name in (names.TRAIN_SECONDS, names.STEP, names.EPOCH) if name in lowest]
    others = [name for name in lowest if not names.is_total(name)]
    others.sort(key=lambda name: (name not in names.LOSSES, name))
    return [(metric, lowest[metric]) for metric in (*clocks, *others[:_MAX_CURVES])]


def _points(sealed: Archive, name: SeriesName, most: int) -> Points:
    """Return at most ``most`` points of a series, each the mean of equally many samples."""
    samples = sorted(
        (time_us, value)
        for piece in sealed.read(name)
        for i, (time_us, value) in enumerate(zip(piece.times_us, piece.values, strict=True))
        if i not in piece.more or piece.more[i].text is None
    )
    size = max(1, ceil(len(samples) / most))
    points = []
    for start in range(0, len(samples), size):
        times, values = zip(*samples[start : start + size], strict=True)
        date = datetime.fromtimestamp(round(fmean(times)) / 1e6, UTC)
        point = {"date": f"{date:%Y-%m-%dT%H:%M:%S.%fZ}", "value": format_value(fmean(values))}
        finite = [value for value in values if isfinite(value)]
        if len(values) > 1 and finite:
            point |= {"min": format_value(min(finite)), "max": format_value(max(finite))}
        points.append(point)
    return points
