"""Writing the page of results from archives: Markdown, and the pictures that it shows."""

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.results import archived
from benchmarks.results.archived import Measured
from benchmarks.results.measuring import Bench
from benchmarks.results.parts import Block
from benchmarks.results.sections import Section
from mlbench import bundle, palette
from mlbench.report.formats import escape, markdown_list, markdown_table
from mlbench.report.plots import Plot
from mlbench.report.statement import machine_text

_HERE = Path(__file__).parent
_STYLE = _HERE.parents[1] / "mlbench" / "report" / "templates" / "report.css"
_WIDTH = 560  # of a picture, in pixels
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
    with ExitStack() as stack:
        found: dict[Bench, Measured] = {}
        for bench in {bench for section in sections for bench in section.sets}:
            if bench.file(archives).exists():
                found[bench] = stack.enter_context(archived.read(bench, bench.file(archives)))
        parts = [(_HERE / "introduction.md").read_text().strip()]
        for section in sections:
            old = [one for one in before if _is_of(one, section)]
            is_kept = old and not found.keys() & {*section.sets}
            parts += old if is_kept else _section(section, found, pictures)
        parts.append((_HERE / "not-measured.md").read_text().strip())
    text = "\n\n".join(parts) + "\n"
    file.write_text(text, encoding="utf-8")
    for picture in pictures.glob("*.svg"):
        if f"{_FOLDER}/{picture.name}" not in text:
            picture.unlink()


def _is_of(text: str, section: Section) -> bool:
    """Check if a part of the page is that of a section, measured by the same commands."""
    commands = re.findall(r"```\n(mlbench bench .*)\n```", text)
    same = commands == [bench.command for bench in section.sets]
    return same and text.startswith(f"## {section.title}\n")


def _section(section: Section, found: dict[Bench, Measured], pictures: Path) -> Iterator[str]:
    yield f"## {section.title}"
    yield section.text
    for bench in section.sets:
        yield f"```\n{bench.command}\n```"
        if bench not in found:
            yield "*Not measured yet.*"
            continue
        yield from _set(found[bench])
        here = [block for part in section.parts for block in part(found[bench])]
        yield from _blocks(here, bench.name, pictures)
    there = [found[bench] for bench in section.sets if bench in found]
    if there:
        together = [block for part in section.together for block in part(there)]
        yield from _blocks(together, section.key, pictures)


def _set(measured: Measured) -> Iterator[str]:
    """Yield how many runs there are, with which seeds and when, and what disturbed them."""
    said = measured.comparison.judgement
    seeds = sorted({run.seed for run in measured.runs if run.seed is not None})
    days = sorted({run.created_at[:10] for run in measured.runs})
    count = len(measured.runs)
    told = f"{count} {'run' if count == 1 else 'runs'}"
    told += f" with the {'seeds' if seeds[1:] else 'seed'} {_ranges(seeds)}" if seeds else ""
    told += f", {days[0]}" if len(days) == 1 else f", {days[0]} to {days[-1]}"
    yield f"{told}. The set: {escape(measured.found.text)}."
    link = f"[The archives of all of them](archives/{measured.file.name})"
    digest, plan = bundle.digest(measured.file), measured.found.plan_sha256
    yield f"{link}, SHA-256 `{digest}`; the plan, registered first: `{plan}`."
    if said.sentence:
        yield f"**{escape(said.sentence)}**"
    said_first = [*filter(None, [measured.comparison.caution]), *said.reasons, *said.departures]
    yield from filter(None, [markdown_list(said_first)])
    if said.disturbed:
        runs = sum(bool(result.disturbed) for result in measured.comparison.results)
        yield _details(f"What disturbed {runs} of the {count} runs", said.disturbed)
    machines = [machine for manifest in measured.manifests for machine in manifest.machines]
    yield _details("What each worker had", [*dict.fromkeys(map(machine_text, machines))])


def _details(summary: str, lines: Sequence[str]) -> str:
    listed = markdown_list(lines)
    return f"<details><summary>{summary}</summary>\n\n{listed}\n\n</details>"


def _ranges(numbers: Sequence[int]) -> str:
    """Return ascending numbers in words, such as ``1 to 5, 20``."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(f"{one[0]} to {one[-1]}" if one[1:] else str(one[0]) for one in parts)


def _blocks(blocks: Sequence[Block], name: str, pictures: Path) -> Iterator[str]:
    for i, block in enumerate(blocks, 1):
        if isinstance(block, Plot):
            file = pictures / f"{name}-{i}.svg"
            file.write_text(to_file(block), encoding="utf-8")
            said = escape(f"{block.title}. {block.caption}")
            yield f"![{said}]({_FOLDER}/{file.name})"
            yield f"*{said}*"
        else:
            yield f"**{escape(block.title)}.** {escape(block.note)}".rstrip()
            yield markdown_table(block)


def to_file(plot: Plot) -> str:
    """Return a plot as an SVG file: with the report's colours, on light paper of its own."""
    root = re.search(r":root \{(.*?)\}", _STYLE.read_text(), re.DOTALL)
    assert root
    colours = dict(re.findall(r"(--[\w-]+): (#\w+);", root[1]))
    colours |= {f"--series-{i}": colour for i, colour in enumerate(palette.SERIES)}
    svg = plot.svg.replace("currentColor", colours["--ink"])
    for name, colour in colours.items():
        svg = svg.replace(f"var({name})", colour)
    box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    assert box
    height = round(_WIDTH * float(box[2]) / float(box[1]))
    svg = svg.replace("<svg ", f'<svg width="{_WIDTH}" height="{height}" ', 1)
    return svg.replace(">", f'><rect width="100%" height="100%" fill="{colours["--paper"]}"/>', 1)
