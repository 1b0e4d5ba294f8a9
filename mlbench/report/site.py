"""A static site of archives: a list of results by task, a page for each run, and the archives.

It needs no server of its own and nothing from elsewhere.
"""

import hashlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mlbench import archive
from mlbench.archive import ArchiveError
from mlbench.contract.comparisons import Comparison, Group
from mlbench.contract.humanize import count
from mlbench.contract.records import Manifest, Run, RunSet
from mlbench.contract.results import Result
from mlbench.evaluation.sandbox import check_digests
from mlbench.report import figures
from mlbench.report.formats import render_page, to_html
from mlbench.report.plots import plots
from mlbench.report.reproduce import commands
from mlbench.report.statement import Attribute, facts, title
from mlbench.report.tables import tables

_SHORT = 12  # characters of a digest that name an archive's files
_NEVER = 1e308  # JavaScript sorts it too


@dataclass(frozen=True)
class SiteEntry:
    """A run of the list."""

    file: Path
    """Its archive."""
    digest: str
    run: Run
    manifest: Manifest
    result: Result

    @property
    def stem(self) -> str:
        """The name of its files: the archive's in ``archives/``, and the page's in ``runs/``."""
        return f"{archive.file_stem(self.run.resource_name)}-{self.digest[:_SHORT]}"

    @property
    def task(self) -> str:
        """The task with its target, which results must share to be listed together."""
        target = self.result.target
        name = self.run.benchmark or "own code"
        return f"{name}: {figures.target(target)}" if target else name

    @property
    def machine(self) -> str:
        """The processors that it ran on."""
        of_ranks = [one.gpus[0] if one.gpus else one.cpu_model for one in self.manifest.machines]
        return ", ".join(dict.fromkeys(filter(None, of_ranks))) or figures.NOTHING


def read_entries(files: Sequence[Path]) -> list[SiteEntry]:
    """Read archives; ArchiveError if anything in one of them is damaged."""
    check_digests(files)
    return [_read_entry(file) for file in files]


def _read_entry(file: Path) -> SiteEntry:
    with archive.opened(file) as sealed:
        record = sealed.document(archive.RUN)
        try:
            return SiteEntry(
                file,
                sealed.digest,
                Run.from_fields(record["run"]),
                Manifest.from_fields(record["manifest"]),
                Result.from_fields(record["result"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ArchiveError(f"{file}: {archive.RUN}: {error}") from None


@dataclass(frozen=True)
class SetEntry:
    """A benchmark set of the list."""

    file: Path
    run_set: RunSet
    comparison: Comparison
    """Of the runs that count, computed from their archives."""

    @property
    def stem(self) -> str:
        """The name of its files."""
        name, created_at = self.run_set.name, self.run_set.created_at
        digest = hashlib.sha256(f"{name} {created_at}".encode()).hexdigest()
        return f"set-{archive.file_stem(name)}-{digest[:_SHORT]}"


def write(entries: Sequence[SiteEntry], sets: Sequence[SetEntry], folder: Path) -> None:
    """Write the site into a folder, or raise an OSError.

    What another call left there stays, but for the list.
    """
    for name in ("runs", "archives"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for entry in entries:
        kept = folder / "archives" / f"{entry.stem}{archive.SUFFIX}"
        if not kept.exists():
            shutil.copyfile(entry.file, kept)
        page = folder / "runs" / f"{entry.stem}.html"
        page.write_text(_run_page(entry, kept), encoding="utf-8")
    for of_set in sets:
        kept = folder / "archives" / f"{of_set.stem}{archive.SUFFIX}"
        if of_set.file.resolve() != kept.resolve():
            shutil.copyfile(of_set.file, kept)
        page = folder / "runs" / f"{of_set.stem}.html"
        content = to_html(of_set.comparison, site_of=f"../archives/{kept.name}")
        page.write_text(content, encoding="utf-8")
    (folder / "index.html").write_text(_index(entries, sets), encoding="utf-8")


def _run_page(entry: SiteEntry, kept: Path) -> str:
    run, result, shown = entry.run, entry.result, _alone(entry.result)
    sealed = [
        Attribute("SHA-256", entry.digest),
        Attribute("run", f"{run.id} ({run.title}), {result.outcome_title}"),
        Attribute("started", run.started_at or figures.NOTHING),
        Attribute("samples", f"{run.delivery.recorded:,}" if run.delivery else figures.NOTHING),
    ]
    return render_page(
        "run",
        title=run.title,
        subtitle=f"{entry.task}; {count(run.num_workers, 'worker')} on {entry.machine}",
        plots=plots(shown),
        tables=tables(shown),
        doubts={
            "Disturbed, so its results may be distorted:": result.disturbed,
            "Rule violations:": result.rule_violations,
            "Clocks were wrong:": result.clock_faults,
        },
        environment=facts(entry.manifest),
        sealed=sealed,
        archive=kept.name,
        size=figures.number(kept.stat().st_size / 1000),
        commands=commands(run, entry.manifest, kept.name),
    )


def _alone(result: Result) -> Comparison:
    """Return the comparison of a run with no other."""
    nothing: dict[str, Any] = dict.fromkeys(field.name for field in fields(Group))
    facts = {
        "label": count(result.num_workers, "worker"),
        "num_workers": result.num_workers,
        "run_ids": (result.run_id,),
        "reached": int(result.valid_time_to_target is not None),
        "phases": result.phases,
        "doubt": "",
        "swept": {},
    }
    return Comparison("yes", (), (Group(**(nothing | facts)),), (result,))


@dataclass(frozen=True)
class _Cell:
    text: str
    order: float | str
    """What it is sorted by."""


def _index(entries: Sequence[SiteEntry], sets: Sequence[SetEntry]) -> str:
    tasks: dict[str, list[SiteEntry]] = {}
    fastest_first = sorted(entries, key=lambda one: one.result.seconds_to_target or _NEVER)
    for entry in sorted(fastest_first, key=lambda one: one.task):
        tasks.setdefault(entry.task, []).append(entry)
    return render_page(
        "index",
        tasks={task: [(entry, _row(entry)) for entry in listed] for task, listed in tasks.items()},
        title="MLBench results",
        sets=[(of_set, title(of_set.comparison)) for of_set in sets],
        count=len(entries),
        published=datetime.now(UTC).date().isoformat(),
    )


def _row(entry: SiteEntry) -> Mapping[str, _Cell]:
    run, result = entry.run, entry.result
    reached = result.time_to_target
    return {
        "time to target": _figure(result.seconds_to_target, figures.seconds),
        "since start": _figure(reached.wall_seconds if reached else None, figures.seconds),
        "best": _figure(result.best_value, figures.number),
        "samples/s": _figure(result.samples_per_second, figures.number),
        "workers": _figure(run.num_workers, str),
        "machine": _Cell(entry.machine, entry.machine),
        "division": _Cell(*[result.division + ("*" if result.rule_violations else "")] * 2),
        "disturbed": _Cell(*["yes" if result.disturbed else "no"] * 2),
        "date": _Cell(run.created_at[:10], run.created_at),
    }


def _figure(value: float | None, spelled: Callable[[float | None], str]) -> _Cell:
    return _Cell(spelled(value), _NEVER if value is None else value)
