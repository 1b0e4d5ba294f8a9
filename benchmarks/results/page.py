"""Writing the page of results from archives: Markdown, and the pictures that it shows.

``python -m benchmarks.results.page FOLDER`` writes it from the archives in a folder.
"""

import hashlib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from benchmarks.results.markdown import escape, markdown_list, markdown_table
from benchmarks.results.parts import Block, of_report, to_targets
from benchmarks.results.pictures import Picture
from benchmarks.results.sections import SECTIONS, Section
from benchmarks.results.sets import Bench, Measured, read
from mlbench.cli.manifest import machine_text
from mlbench.evaluation.official_rules import describe

_HERE = Path(__file__).parent
_FOLDER = "images/results"


def write(sections: Sequence[Section], archives: Path, docs: Path) -> None:
    """Write ``results.md`` and its pictures into the folder of the documentation.

    A section none of whose sets has archives stays as it was, if its commands are still the same.

    Raises:
        ArchiveError: a file of the archives is damaged, or of another set.
    """
    file, pictures = docs / "results.md", docs / _FOLDER
    pictures.mkdir(parents=True, exist_ok=True)
    before = re.split(r"\n\n(?=## )", file.read_text(encoding="utf-8")) if file.exists() else []
    sets = {
        bench: read(bench, bench.file(archives))
        for section in sections
        for bench in section.sets
        if bench.file(archives).exists()
    }
    parts = [(_HERE / "introduction.md").read_text().strip()]
    for section in sections:
        # A part is kept if it was measured by the same commands.
        commands = [bench.command for bench in section.sets]
        old = [
            part
            for part in before
            if part.startswith(f"## {section.title}\n")
            and re.findall(r"```\n(mlbench bench .*)\n```", part) == commands
        ]
        is_kept = old and not sets.keys() & {*section.sets}
        parts += old if is_kept else _section(section, sets, pictures)
    parts.append((_HERE / "not-measured.md").read_text().strip())
    text = "\n\n".join(parts) + "\n"
    file.write_text(text, encoding="utf-8")
    for picture in pictures.glob("*.svg"):
        if f"{_FOLDER}/{picture.name}" not in text:
            picture.unlink()


def _section(section: Section, sets: Mapping[Bench, Measured], pictures: Path) -> Iterator[str]:
    yield f"## {section.title}"
    yield section.text
    for bench in section.sets:
        yield f"```\n{bench.command}\n```"
        if bench not in sets:
            yield "*Not measured yet.*"
            continue
        yield from _set(sets[bench])
        yield from _blocks(of_report(sets[bench], section.report), bench.name, pictures)
    measured = [sets[bench] for bench in section.sets if bench in sets]
    if measured and section.targets:
        yield from _blocks([to_targets(measured, section)], section.key, pictures)


def _set(measured: Measured) -> Iterator[str]:
    """Yield number, seeds and dates of the runs, and the interference with them."""
    comparison, findings = measured.comparison, measured.comparison.findings
    seeds = sorted({run.seed for run in measured.runs if run.seed is not None})
    days = sorted({run.created_at[:10] for run in measured.runs})
    count = len(measured.runs)
    text = f"{count} {'run' if count == 1 else 'runs'}"
    # Consecutive seeds become ranges, such as ``1 to 5, 20``.
    groups = groupby(enumerate(seeds), lambda pair: pair[1] - pair[0])
    ranges = [[seed for _, seed in group] for _, group in groups]
    shown = ", ".join(" to ".join(map(str, dict.fromkeys((r[0], r[-1])))) for r in ranges)
    text += f" with the {'seeds' if seeds[1:] else 'seed'} {shown}" if seeds else ""
    text += f", {' to '.join(dict.fromkeys((days[0], days[-1])))}"
    yield f"{text}. The set: {escape(describe(measured.run_set.slots))}."
    link = f"[The archives of all of them](archives/{measured.file.name})"
    digest = hashlib.sha256(measured.file.read_bytes()).hexdigest()
    plan = measured.run_set.plan_sha256
    yield f"{link}, SHA-256 `{digest}`; the plan, registered first: `{plan}`."
    if findings.sentence:
        yield f"**{escape(findings.sentence)}**"
    cautions = [*filter(None, [comparison.caution]), *findings.reasons, *findings.rule_violations]
    yield from filter(None, [markdown_list(cautions)])
    if findings.disturbed:
        runs = sum(bool(result.disturbed) for result in comparison.results)
        yield _details(f"CPU contention: {runs} of the {count} runs disturbed", findings.disturbed)
    machines = [machine for manifest in measured.manifests for machine in manifest.machines]
    yield _details("What each worker had", [*dict.fromkeys(map(machine_text, machines))])


def _details(summary: str, lines: Sequence[str]) -> str:
    return f"<details><summary>{summary}</summary>\n\n{markdown_list(lines)}\n\n</details>"


def _blocks(blocks: Iterable[Block], name: str, pictures: Path) -> Iterator[str]:
    for i, block in enumerate(blocks, 1):
        if isinstance(block, Picture):
            file = pictures / f"{name}-{i}.svg"
            file.write_text(block.svg, encoding="utf-8")
            caption = escape(f"{block.title}. {block.caption}")
            yield f"![{caption}]({_FOLDER}/{file.name})"
            yield f"*{caption}*"
        else:
            yield f"**{escape(block.title)}.** {escape(block.note)}".rstrip()
            yield markdown_table(block)


if __name__ == "__main__":
    write(SECTIONS, Path(sys.argv[1]), _HERE.parents[1] / "docs")
