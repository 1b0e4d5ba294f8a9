"""Writing the page of results: headline figures and charts, computed from archives.

``python -m benchmarks.results.page FOLDER`` writes it from the archives in a folder.
"""

import hashlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.results.pictures import pictures
from benchmarks.results.sets import SETS, Bench, read
from mlbench.contract import figures
from mlbench.contract.comparisons import Comparison

_HERE = Path(__file__).parent
_FOLDER = "images/results"
_HEAD = "| measured | group | reached | time to target, or throughput |"
# With more groups than this, the table has the fastest group for each value of the axis.
_MAX_ROWS = 6


def write(sets: Sequence[Bench], archives: Path, docs: Path) -> None:
    """Write ``results.md`` and its pictures into the folder of the documentation.

    Raises:
        ArchiveError: a file of the archives is missing, damaged, or of another set.
    """
    folder = docs / _FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.svg"):
        old.unlink()
    rows: list[str] = []
    charts: list[str] = []
    digests: list[str] = []
    for bench in sets:
        file = bench.file(archives)
        comparison = read(bench, file)
        rows += [f"| {bench.text} | {row} |" for row in _rows(comparison)]
        for picture in pictures(comparison):
            if bench.picture and picture.title.startswith(bench.picture):
                (folder / f"{bench.name}.svg").write_text(picture.svg, encoding="utf-8")
                caption = f"{bench.text}: {picture.title}. {picture.caption}"
                charts.append(f"![{picture.title}]({_FOLDER}/{bench.name}.svg)\n\n*{caption}*")
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        digests.append(f"- [{bench.name}](archives/{file.name}), SHA-256 `{digest}`")
    parts = [
        (_HERE / "introduction.md").read_text().strip(),
        "## Headline figures",
        "\n".join(
            [
                "| measured | group | reached | time to target, or throughput |",
                "|---|---|---|---|",
                *rows,
            ]
        ),
        "## Charts",
        *charts,
        "## Repeat them",
        "Start a stack on a machine that does nothing else. All commands take three hours. Then "
        "run `mlbench export NAME` for each set in a folder, and `make results ARCHIVES=FOLDER`.",
        "\n".join(["```", *(bench.command for bench in sets), "```"]),
        "## Archives",
        "\n".join(digests),
    ]
    (docs / "results.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _rows(comparison: Comparison) -> Iterator[str]:
    """Yield group, number of runs that reached the target, and time or throughput."""
    sweep = comparison.sweep
    if sweep and sweep.by and len(comparison.groups) > _MAX_ROWS:
        [chart] = (chart for chart in sweep.charts if chart.title.startswith("Time to target"))
        for place, value in enumerate(sweep.across.values):
            cells = zip(chart.cells, sweep.by.values, strict=True)
            measured = [(cell, name) for row, name in cells if (cell := row[place])]
            cell, name = min(measured, key=lambda pair: pair[0].mean)
            time = _interval(cell.mean, cell.low, cell.high, "s")
            yield f"`{name}` is fastest at {sweep.across.title} {value} | | {time}"
        return
    for group in comparison.groups:
        summary, unit = group.training_seconds_to_target, "s"
        if summary is None:
            summary, unit = group.samples_per_second, "samples/s"
        if summary:
            figure = _interval(summary.mean, summary.mean_low, summary.mean_high, unit)
            yield f"{group.label} | {group.reached}/{len(group.run_ids)} | {figure}"


def _interval(mean: float | None, low: float | None, high: float | None, unit: str) -> str:
    ends = "" if low is None else f" ({figures.number(low)} to {figures.number(high)})"
    return f"{figures.number(mean)} {unit}{ends}"


if __name__ == "__main__":
    write(SETS, Path(sys.argv[1]), _HERE.parents[1] / "docs")
