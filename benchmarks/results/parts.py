"""The parts of a section: tables and plots that are made of a set which was measured."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from benchmarks.results.sets import Measured
from mlbench.evaluation.statistics import of_figures
from mlbench.report import figures, plots, tables
from mlbench.report.plots import Plot
from mlbench.report.tables import Heading, Table
from mlbench.results import Comparison, Group, Summary

Block = Table | Plot
Part = Callable[[Measured], Iterator[Block]]
Summing = Callable[[Sequence[Measured]], Iterator[Block]]


@dataclass(frozen=True)
class Published:
    """A time to a goal that others have measured and published."""

    who: str
    """With the number of workers, and what they had."""
    goal: float
    seconds: float
    source: str
    """A sentence that says where it was published, and in what it differs."""


def of_report(*titles: str) -> Part:
    """Make the tables and plots that a report has by these titles, or beginnings of such."""

    def part(measured: Measured) -> Iterator[Block]:
        drawn: list[Block] = [
            *tables.tables(measured.comparison),
            *plots.plots(measured.comparison),
        ]
        for title in titles:
            yield from (block for block in drawn if block.title.startswith(title))

    return part


def to_goals(values: Sequence[float], published: Sequence[Published] = ()) -> Summing:
    """Make a table of epochs and training times to several goals, beside what was published."""

    def part(measured: Sequence[Measured]) -> Iterator[Block]:
        rows: list[list[tables.Cell]] = []
        for value in values:
            for each in measured:
                results = each.comparison.results
                target = next(result.target for result in results if result.target)
                compared = each.judged_by(replace(target, value=value))
                order = figures.pairs(each.run_set.order.get("args", {}))
                rows += [_to_goal(value, group, order, compared) for group in compared.groups]
            for time in published:
                if time.goal == value:
                    rows.append([_percent(value), time.who, *[None] * 4, time.seconds, None, None])
        note = (
            "Training time, evaluation left out. From, to: where the mean is with 95 % confidence. "
            + " ".join(dict.fromkeys(time.source for time in published))
        )
        headings = (
            Heading("goal"),
            Heading("who", is_figure=False),
            Heading("reached"),
            *(Heading(text, unit) for unit in ("epochs", "s") for text in ("mean", "from", "to")),
        )
        columns = [figures.column(cells) for cells in zip(*rows, strict=True)]
        cells = tuple(zip(*columns, strict=True))
        yield Table("Epochs and time to accuracy", note, headings, cells)

    return part


def _to_goal(value: float, group: Group, order: str, compared: Comparison) -> list[tables.Cell]:
    times = [each.time_to_accuracy for each in compared.results if each.run_id in group.run_ids]
    epochs = of_figures(time.epochs if time else None for time in times)
    reached = f"{group.reached}/{len(group.run_ids)}"
    who = ", ".join(filter(None, [group.label, order]))
    seconds = group.training_seconds_to_accuracy
    return [_percent(value), who, reached, *_mean_and_ends(epochs), *_mean_and_ends(seconds)]


def _percent(value: float) -> str:
    return f"{value:g} %"


def _mean_and_ends(summary: Summary | None) -> list[float | None]:
    return [summary.mean, summary.mean_low, summary.mean_high] if summary else [None] * 3
