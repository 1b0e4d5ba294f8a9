"""The parts of a section: tables and plots that are made of the sets which were measured."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from benchmarks.results.pictures import Picture, pictures
from benchmarks.results.sections import Section
from benchmarks.results.sets import Measured
from benchmarks.results.sweep_tables import sweep_tables
from mlbench.contract import figures
from mlbench.contract.results import Summary
from mlbench.evaluation.statistics import of_figures
from mlbench.report import tables
from mlbench.report.tables import Column, ReportTable

Block = ReportTable | Picture


def of_report(measured: Measured, titles: Sequence[str]) -> Iterator[Block]:
    """Make the tables and pictures that a report has by these titles, or beginnings of such."""
    drawn: list[Block] = [
        *sweep_tables(measured.comparison),
        *tables.tables(measured.comparison),
        *pictures(measured.comparison),
    ]
    for title in titles:
        yield from (block for block in drawn if block.title.startswith(title))


def to_targets(measured: Sequence[Measured], section: Section) -> ReportTable:
    """Make a table of epochs and training times to several targets, with published results."""
    rows: list[list[tables.Cell]] = []
    for value in section.targets:
        for each in measured:
            target = next(result.target for result in each.comparison.results if result.target)
            compared = each.judged_by(replace(target, value=value))
            options = figures.pairs(each.run_set.order.get("args", {}))
            for group in compared.groups:
                results = [r for r in compared.results if r.run_id in group.run_ids]
                times = [result.time_to_target for result in results]
                epochs = of_figures(time.epochs if time else None for time in times)
                reached = f"{group.reached}/{len(group.run_ids)}"
                who = ", ".join(filter(None, [group.label, options]))
                seconds = _mean_and_ends(group.training_seconds_to_target)
                rows.append([f"{value:g} %", who, reached, *_mean_and_ends(epochs), *seconds])
        for time in section.published:
            if time.target == value:
                rows.append([f"{value:g} %", time.who, *[None] * 4, time.seconds, None, None])
    note = (
        "Training time, evaluation left out. From, to: where the mean is with 95 % confidence. "
        + section.source
    )
    columns = (
        Column("target"),
        Column("who", is_figure=False),
        Column("reached"),
        *(Column(text, unit) for unit in ("epochs", "s") for text in ("mean", "from", "to")),
    )
    texts = [figures.column(cells) for cells in zip(*rows, strict=True)]
    return ReportTable("Epochs and time to target", note, columns, tuple(zip(*texts, strict=True)))


def _mean_and_ends(summary: Summary | None) -> list[float | None]:
    return [summary.mean, summary.mean_low, summary.mean_high] if summary else [None] * 3
