"""The pages of the web interface as files: a comparison, a benchmark set, and a run."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from mlbench.archive import RUN, Archive
from mlbench.client.base import api_path
from mlbench.contract.comparisons import Comparison
from mlbench.contract.distribution import own_version
from mlbench.contract.records import Manifest, Run, RunMetric, RunSet
from mlbench.contract.results import Result
from mlbench.evaluation.sweeps import RunSummaryMetrics, analyze
from mlbench.report.page import FilePage
from mlbench.report.reproduce import commands
from mlbench.report.run_documents import RunDocuments, keys_of, max_points, of_archive
from mlbench.report.statement import Attribute, facts, subtitle, title

_SHORT = 12  # digits of a digest in a list


def comparison_page(comparison: Comparison, runs: Mapping[int, RunDocuments]) -> FilePage:
    """Return the page that compares runs."""
    ids = ",".join(map(str, runs))
    responses: dict[str, Any] = {f"/api/compare/?runs={ids}": comparison.to_fields()}
    for result in comparison.results:
        responses |= _responses(result.run_id, runs[result.run_id])
    return FilePage(
        "compare",
        title(comparison),
        responses,
        address=f"?runs={ids}",
        about=[
            Attribute("comparison", f"{title(comparison)}; {subtitle(comparison)}"),
            *_about(runs),
        ],
        settings=facts(Manifest.from_fields(next(iter(runs.values())).manifest)),
    )


def set_page(run_set: RunSet, comparison: Comparison, runs: Mapping[int, RunDocuments]) -> FilePage:
    """Return the page of a benchmark set, with the comparison of its counted runs."""
    figures = {
        result.run_id: RunSummaryMetrics(
            result.seconds_to_target, result.samples_per_second, result.wall_seconds
        )
        for result in comparison.results
    }
    page, path = comparison_page(comparison, runs), api_path("sets", run_set.name)
    analysis = analyze(run_set, figures).to_fields()
    responses = {path: run_set.to_fields(), f"{path}analysis/": analysis, **page.responses}
    page = replace(page, template="set", title=f"Set {run_set.name}", responses=responses)
    return replace(page, variables={"set_name": run_set.name})


def run_page(sealed: Archive, archive: str) -> FilePage:
    """Return the page of the run in an archive, which is a file named ``archive``."""
    document, keys = sealed.document(RUN), keys_of(sealed)
    run_id = document["run"]["id"]
    runs = {run_id: of_archive(sealed, run_id, keys, max_points(len(keys)))}
    run, manifest = Run.from_fields(runs[run_id].run), Manifest.from_fields(runs[run_id].manifest)
    path = api_path("runs", run_id)
    without_ranks = {metric for metric, rank in keys if not rank}
    metrics = [
        RunMetric(metric, metric not in without_ranks).to_fields()
        for metric in sorted({metric for metric, _ in keys})
    ]
    responses = {
        **_responses(run_id, runs[run_id]),
        f"{path}result/": Result.from_fields(document["result"]).to_fields(),
        f"{path}metrics/": metrics,
        f"{path}events/": document["events"],
        **{f"{path}{name}/": [] for name in ("alerts", "files", "profiles")},
        **{"/api/alerts/": [], "/api/benchmarks/": [], "/api/info/": {}},
    }
    return FilePage(
        "run",
        run.title,
        responses,
        about=[*_about(runs), Attribute("archive's digest", f"SHA-256 {sealed.digest}")],
        settings=facts(manifest),
        archive=archive,
        commands=commands(run, manifest, archive.rpartition("/")[2]),
        variables={"run_id": run_id},
    )


def _responses(run_id: int, run: RunDocuments) -> dict[str, Any]:
    path = api_path("runs", run_id)
    return {
        path: run.run,
        f"{path}manifest/": run.manifest,
        api_path("metrics", run_id): run.series,
    }


def _about(runs: Mapping[int, RunDocuments]) -> Iterator[Attribute]:
    """Yield what identifies the runs: ids, digests, seeds and versions."""
    names = (
        f"{run_id} ({run.run['title']}{f', archive {run.digest[:_SHORT]}' if run.digest else ''})"
        for run_id, run in runs.items()
    )
    manifests = [Manifest.from_fields(run.manifest) for run in runs.values()]
    seeds = sorted({manifest.seed for manifest in manifests if manifest.seed is not None})
    yield Attribute("runs" if runs.keys() - [*runs][:1] else "run", ", ".join(names))
    if seeds:
        yield Attribute("seeds" if seeds[1:] else "seed", ", ".join(map(str, seeds)))
    versions = sorted({manifest.versions.mlbench for manifest in manifests})
    yield Attribute("recorded by", f"MLBench {', '.join(versions)}")
    yield Attribute("written", f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC by MLBench {own_version()}")
