"""Tables of a sweep: heat maps, and which algorithm is the fastest at which bandwidth."""

from collections.abc import Iterator

from mlbench.contract import figures
from mlbench.contract.comparisons import Comparison
from mlbench.contract.sweeps import Axis, Cell, Chart, Sweep
from mlbench.report.tables import Column, ReportTable, make_table

_TIMES_OF_FASTEST = (1, 1.5, 2, 4)
_CROSSINGS_NOTE = (
    "Bandwidth above which the second algorithm is faster: time to target, interpolated between "
    "the measured bandwidths. An end is - if it is outside of these, or for fewer than three runs."
)
_PROFILES_NOTE = (
    "Share of the workloads, each a bandwidth and a number of workers, on which an algorithm takes "
    "at most this many times as long as the fastest, by median times. Score: the mean of that "
    "share from 1 to 4 times (AlgoPerf, Dahl et al. 2023)."
)


def sweep_tables(comparison: Comparison) -> Iterator[ReportTable]:
    """Yield the tables of a sweep; none for other comparisons."""
    if sweep := comparison.sweep:
        yield from (_heat_map(sweep, sweep.by, chart) for chart in sweep.charts if sweep.by)
    if frontier := comparison.frontier:
        best_first = sorted(frontier.profiles, key=lambda profile: -profile.score)
        if frontier.crossings:
            yield make_table("Crossings", _CROSSINGS_NOTE, _CROSSINGS, frontier.crossings)
        yield make_table("Performance profiles", _PROFILES_NOTE, _PROFILES, best_first)


def _heat_map(sweep: Sweep, by: Axis, chart: Chart) -> ReportTable:
    """Return a table of one figure, with a row and a column for each value of two axes."""
    across = sweep.across
    return ReportTable(
        f"{chart.title} [{chart.unit}]",
        f"Across: {across.title}. In brackets: 95 % confidence interval.",
        (
            Column(by.key, is_figure=False),
            *(Column(value.removesuffix(across.unit)) for value in across.values),
        ),
        tuple(
            (value, *map(_with_interval, row))
            for value, row in zip(by.values, chart.cells, strict=True)
        ),
    )


def _with_interval(cell: Cell | None) -> str:
    """Return a mean, and the interval that it is in."""
    if cell is None or cell.low is None or cell.high is None:
        return figures.number(cell.mean if cell else None)
    mean, low, high = map(figures.number, (cell.mean, cell.low, cell.high))
    return f"{mean} ({low} to {high})"


def _within(times: float) -> Column:
    return Column(f"{figures.TIMES} {times:g}", "%", lambda row: row.share(times) * 100)


_CROSSINGS = (
    Column("on", "", "where", is_figure=False),
    Column("below", "", "below", is_figure=False),
    Column("above", "", "above", is_figure=False),
    Column("crossing", "Mbit/s", "bandwidth"),
    Column("from", "Mbit/s", "low"),
    Column("to", "Mbit/s", "high"),
    Column("fastest of all", "", lambda row: "yes" if row.on_frontier else "no", is_figure=False),
)
_PROFILES = (
    Column("algorithm", "", "algorithm", is_figure=False),
    Column("score", "", "score"),
    *map(_within, _TIMES_OF_FASTEST),
)
