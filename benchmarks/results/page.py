"""Writing the page of results: headline figures and charts, computed from archives.

``python -m benchmarks.results.page FOLDER`` writes it from the archives in a folder.
"""

import math
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.results.pictures import pictures
from benchmarks.results.sets import SETS, Bench, read
from mlbench.contract import figures
from mlbench.contract.comparisons import Group
from mlbench.contract.results import Summary

_HERE = Path(__file__).parent
_FOLDER = "images/results"
_HEAD = "| measured | fastest group | reached | time to target, or throughput |"


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
    for bench in sets:
        file = bench.file(archives)
        comparison = read(bench, file)
        rows.append(f"| [{bench.text}](archives/{file.name}) | {_fastest(comparison.groups)} |")
        for picture in pictures(comparison):
            if bench.picture and picture.title.startswith(bench.picture):
                (folder / f"{bench.name}.svg").write_text(picture.svg, encoding="utf-8")
                caption = f"{bench.text}. {picture.caption}"
                charts.append(f"![{picture.title}]({_FOLDER}/{bench.name}.svg)\n\n*{caption}*")
    parts = [
        (_HERE / "introduction.md").read_text().strip(),
        "## Headline figures",
        "\n".join([_HEAD, "|---|---|---|---|", *rows]),
        "## Charts",
        *charts,
    ]
    (docs / "results.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _fastest(groups: Sequence[Group]) -> str:
    """Return group, number of runs that reached the target, and time or throughput."""
    fastest = min(groups, key=lambda group: _mean(group.training_seconds_to_target, math.inf))
    summary, unit = fastest.training_seconds_to_target, "s"
    if _mean(summary, math.inf) == math.inf:
        fastest = max(groups, key=lambda group: _mean(group.samples_per_second, 0))
        summary, unit = fastest.samples_per_second, "samples/s"
    figure = _interval(summary, unit) if summary else ""
    return f"{fastest.label} | {fastest.reached}/{len(fastest.run_ids)} | {figure}"


def _mean(summary: Summary | None, missing: float) -> float:
    return missing if summary is None or summary.mean is None else summary.mean


def _interval(summary: Summary, unit: str) -> str:
    mean, low, high = map(figures.number, (summary.mean, summary.mean_low, summary.mean_high))
    return f"{mean} {unit}" + ("" if summary.mean_low is None else f" ({low} to {high})")


if __name__ == "__main__":
    write(SETS, Path(sys.argv[1]), _HERE.parents[1] / "docs")
