"""A static site of archives: a list of results by task, a page for each run and set, the archives.

The pages are the web interface's. They can be opened as files, and load nothing from
elsewhere.
"""

import hashlib
import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from mlbench import archive
from mlbench.archive import ArchiveError
from mlbench.contract import figures
from mlbench.contract.comparisons import Comparison
from mlbench.contract.records import Manifest, Run, RunSet
from mlbench.contract.results import Result
from mlbench.evaluation.sandbox import check_digests
from mlbench.report.page import render, write_assets
from mlbench.report.pages import FilePage, of_archives, run_page, set_page
from mlbench.report.statement import processors, title
from mlbench.report.tables import TableColumn, division, make_table

_SHORT = 12  # characters of a digest that name an archive's files


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


def read_entries(files: Sequence[Path]) -> list[SiteEntry]:
    """Read archives; ArchiveError if anything in one of them is damaged."""
    check_digests(files)
    entries = []
    for file in files:
        with archive.opened(file) as sealed:
            record = sealed.document(archive.RUN)
            try:
                run = Run.from_fields(record["run"])
                manifest = Manifest.from_fields(record["manifest"])
                result = Result.from_fields(record["result"])
            except (KeyError, TypeError, ValueError) as error:
                raise ArchiveError(f"{file}: {archive.RUN}: {error}") from None
            entries.append(SiteEntry(file, sealed.digest, run, manifest, result))
    return entries


@dataclass(frozen=True)
class SetEntry:
    """A benchmark set of the list."""

    file: Path
    run_set: RunSet
    comparison: Comparison
    """Comparison of the runs that count, computed from their archives."""
    digests: Mapping[int, str]
    """Digest of each counted run's archive."""

    @property
    def stem(self) -> str:
        """The name of its files."""
        name, created_at = self.run_set.name, self.run_set.created_at
        digest = hashlib.sha256(f"{name} {created_at}".encode()).hexdigest()
        return f"set-{archive.file_stem(name)}-{digest[:_SHORT]}"


_COLUMNS = (
    TableColumn("Time to target", "s", "result.seconds_to_target"),
    TableColumn("Since start", "s", "result.time_to_target.wall_seconds"),
    TableColumn("Best", "", "result.best_value"),
    TableColumn("Throughput", "samples/s", "result.samples_per_second"),
    TableColumn("Workers", "", "run.num_workers"),
    TableColumn(
        "Machine", "", lambda e: processors(e.manifest) or figures.NOTHING, is_figure=False
    ),
    TableColumn("Division", "", lambda entry: division(entry.result), is_figure=False),
    TableColumn(
        "CPU contention", "", lambda e: "yes" if e.result.disturbed else "no", is_figure=False
    ),
    TableColumn("Date", "", lambda entry: entry.run.created_at[:10], is_figure=False),
)


def write(entries: Sequence[SiteEntry], sets: Sequence[SetEntry], folder: Path) -> None:
    """Write the site into a folder, or raise an OSError.

    Files that an earlier call has written stay, except for the list.
    """
    for name in ("runs", "archives"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    assets = write_assets(folder / "assets")
    files = {entry.digest: f"{quote(entry.stem)}.html" for entry in entries}
    for entry in entries:
        copy = _keep(entry.file, entry.stem, folder)
        with archive.opened(copy) as sealed:
            page = run_page(sealed, f"../archives/{copy.name}")
        _write(page, folder / "runs" / f"{entry.stem}.html", f"../assets/{assets}")
    for of_set in sets:
        copy = _keep(of_set.file, of_set.stem, folder)
        runs = of_archives([copy], of_set.digests)([*of_set.digests])
        links = {f"/runs/{i}": files[d] for i, d in of_set.digests.items() if d in files}
        page = set_page(of_set.run_set, of_set.comparison, runs)
        page = replace(page, files=links, archive=f"../archives/{copy.name}")
        _write(page, folder / "runs" / f"{of_set.stem}.html", f"../assets/{assets}")
    tasks: dict[str, list[SiteEntry]] = {}
    fastest_first = sorted(entries, key=lambda entry: entry.result.seconds_to_target or math.inf)
    for entry in sorted(fastest_first, key=lambda entry: entry.task):
        tasks.setdefault(entry.task, []).append(entry)
    variables = {
        "tasks": [
            (make_table(task, "", _COLUMNS, listed), listed) for task, listed in tasks.items()
        ],
        "sets": [(of_set, title(of_set.comparison)) for of_set in sets],
        "count": len(entries),
        "published": datetime.now(UTC).date().isoformat(),
    }
    index = FilePage("index", "Results", {}, variables=variables)
    _write(index, folder / "index.html", f"assets/{assets}")


def _keep(file: Path, stem: str, folder: Path) -> Path:
    """Copy an archive to the site, unless it is there."""
    copy = folder / "archives" / f"{stem}{archive.SUFFIX}"
    if file.resolve() != copy.resolve():
        shutil.copyfile(file, copy)
    return copy


def _write(page: FilePage, file: Path, assets: str) -> None:
    file.write_text(render(page, assets), encoding="utf-8")
