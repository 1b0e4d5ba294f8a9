"""The plots of a comparison: the metric over time, time to accuracy, speed-up, phases.

matplotlib draws them as SVG. Its colours stand for those of the page: ``_INK`` for texts and axes,
``_FAINT`` for what lies behind, ``_SERIES`` for what is compared. At the end they are replaced by
CSS names, so that one drawing suits a light page, a dark one, and paper.
"""

import io
import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from mlbench.records import Goal
from mlbench.report import figures
from mlbench.report.tables import phase_names
from mlbench.results import Comparison, Curve, Group, Result

_INK, _FAINT = "#010203", "#040506"
_SERIES = tuple(f"#0a00{i:02x}" for i in range(7))
_DASHED = (0, (5, 3))

_PAGES_NAMES = {_INK: "currentColor", _FAINT: "var(--faint)"} | {
    colour: f"var(--series-{i})" for i, colour in enumerate(_SERIES)
}
_WIDTH, _HEIGHT = 5.6, 3.6  # inches; the page scales them
# As matplotlib types it, its parameters are a closed list that grows with its version.
_STYLE: Any = {
    "svg.fonttype": "none",  # texts stay texts, in the page's font
    "svg.hashsalt": "mlbench",  # the same figures give the same drawing
    "font.size": 10,
    "text.color": _INK,
    "text.parse_math": False,  # a dollar in a name is a dollar
    "axes.labelcolor": _INK,
    "axes.edgecolor": _FAINT,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": _FAINT,
    "grid.alpha": 0.45,
    "grid.linewidth": 0.6,
    "xtick.color": _FAINT,
    "ytick.color": _FAINT,
    "xtick.labelcolor": _INK,
    "ytick.labelcolor": _INK,
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.4,
    "lines.markersize": 6,
}
_LINES = ("-", "--", ":", "-.")
_LABEL_COLUMNS, _TICK_COLUMNS = 24, 16
_MOST_LINES = 3
_MOST_IN_LEGEND = 10
# The axis is logarithmic if the last group has this many times the workers of the first.
_WIDE_RANGE = 8
# The width of a group's dots, where 1 is the distance of two groups.
_SPREAD = 0.3
# The height of the axis, where 1 is the longest time.
_ROOM = 1.08


@dataclass(frozen=True)
class Plot:
    """A drawing, and how to read it."""

    title: str
    caption: str
    svg: str


def plots(comparison: Comparison) -> list[Plot]:
    """Return the plots that a comparison has the figures for."""
    metrics = dict.fromkeys(one.target.metric for one in comparison.results if one.target)
    found = [
        *(_metric_over_time(comparison, metric, f"metric-{i}") for i, metric in enumerate(metrics)),
        _time_to_accuracy(comparison),
        _speedup(comparison.groups),
        _phases(comparison.groups),
    ]
    return [plot for plot in found if plot is not None]


def _metric_over_time(comparison: Comparison, metric: str, name: str) -> Plot | None:
    """Plot the runs whose target has this metric."""
    curves = [
        (result, result.curve)
        for result in comparison.results
        if result.curve and result.target and result.target.metric == metric
    ]
    if not any(value is not None for _, curve in curves for value in curve.values):
        return None
    in_training = all(any(t is not None for t in curve.training_seconds) for _, curve in curves)
    places = {run: i for i, group in enumerate(comparison.groups) for run in group.run_ids}
    named: set[int] = set()
    with _canvas() as (figure, axes):
        for result, curve in sorted(curves, key=lambda one: places[one[0].run_id]):
            place = places[result.run_id]
            times, values = _points(curve, in_training=in_training)
            colour = _SERIES[place % len(_SERIES)]
            line = _LINES[place // len(_SERIES) % len(_LINES)]
            # A single evaluation is no line.
            marker = "." if len(times) == 1 else ""
            label = None if place in named else _wrapped(comparison.groups[place].label)
            named.add(place)
            axes.plot(times, values, color=colour, linestyle=line, marker=marker, label=label)
            _mark_reaching(axes, result, colour, in_training=in_training)
        _draw_goals(axes, [result.target for result, _ in curves if result.target])
        clock = "training time" if in_training else "time since the start"
        axes.set(xlabel=f"{clock} [s]", ylabel=_wrapped(metric))
        axes.set_xlim(left=0)
        if len(named) <= _MOST_IN_LEGEND:
            axes.legend(loc="best")
        svg = _to_svg(figure, name)
    caption = "Each line is a run; its dot is where it reached the goal."
    return Plot(f"{metric} over {clock}", caption, svg)


def _time_to_accuracy(comparison: Comparison) -> Plot | None:
    seconds = {
        result.run_id: result.time_to_accuracy.training_seconds
        for result in comparison.results
        if result.time_to_accuracy and result.time_to_accuracy.training_seconds is not None
    }
    if not seconds or len(comparison.results) == 1:
        return None
    groups = comparison.groups
    scale_out = _differ_in_workers(groups)
    with _canvas() as (figure, axes):
        for place, group in enumerate(groups):
            values = [seconds[run] for run in group.run_ids if run in seconds]
            step = _SPREAD / max(1, len(values) - 1)
            across = [place + step * (i - (len(values) - 1) / 2) for i in range(len(values))]
            axes.scatter(across, values, s=34, color=_SERIES[place % len(_SERIES)], alpha=0.8)
        summaries = [group.training_seconds_to_accuracy for group in groups]
        means = {i: one.mean for i, one in enumerate(summaries) if one and one.mean is not None}
        axes.plot(
            [*means],
            [*means.values()],
            # Connected only if the groups differ in nothing but their workers.
            linestyle="-" if scale_out else "",
            linewidth=1,
            color=_INK,
            marker="_",
            markersize=22,
            markeredgewidth=1.6,
        )
        axes.set_xticks(range(len(groups)), [_tick(group, scale_out) for group in groups])
        axes.set_xlim(-0.6, len(groups) - 0.4)
        axes.set_ylim(0, _ROOM * max(seconds.values()) or 1.0)
        axes.grid(visible=False, axis="x")
        axes.tick_params(axis="x", length=0)
        axes.set(xlabel="workers" if scale_out else "", ylabel="training time to the goal [s]")
        svg = _to_svg(figure, "time-to-accuracy")
    caption = "Each dot is a run that reached the goal, each bar the mean of its group."
    return Plot("Time to accuracy", caption, svg)


def _speedup(groups: Sequence[Group]) -> Plot | None:
    if len(groups) == 1 or not _differ_in_workers(groups):
        return None
    workers = [group.num_workers for group in groups]
    lines = [
        ("time to accuracy", "o", [group.speedup for group in groups]),
        ("throughput", "s", [group.throughput_speedup for group in groups]),
    ]
    # The first group is always 1: that alone is no measurement.
    measured = [one for one in lines if sum(value is not None for value in one[2]) > 1]
    if not measured:
        return None
    with _canvas() as (figure, axes):
        ideal = [count / workers[0] for count in workers]
        axes.plot(workers, ideal, color=_INK, linestyle=_DASHED, linewidth=1.1, label="ideal")
        for colour, (label, marker, values) in zip(_SERIES, measured, strict=False):
            pairs = [(x, y) for x, y in zip(workers, values, strict=True) if y is not None]
            xs, ys = zip(*pairs, strict=True)
            axes.plot(xs, ys, color=colour, marker=marker, label=label)
        if workers[-1] > _WIDE_RANGE * workers[0]:
            axes.set_xscale("log", base=2)
            axes.set_yscale("log", base=2)
        else:
            axes.set_ylim(bottom=0)
        plain = FuncFormatter(lambda value, _: f"{value:g}")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(plain)
            axis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_locator(FixedLocator(workers))
        axes.set(xlabel="workers", ylabel=f"speed-up [{figures.TIMES}]")
        axes.legend(loc="upper left")
        svg = _to_svg(figure, "speed-up")
    return Plot("Speed-up", f"How many times as fast as {groups[0].label}.", svg)


def _phases(groups: Sequence[Group]) -> Plot | None:
    names = phase_names(groups)
    if not names:
        return None
    rows = range(len(groups))
    with _canvas(height=1.6 + 0.5 * len(groups)) as (figure, axes):
        ends = [0.0] * len(groups)
        for place, name in enumerate(names):
            seconds = [group.phases.get(name, 0.0) for group in groups]
            colour = _FAINT if name == "other" else _SERIES[place % len(_SERIES)]
            axes.barh(rows, seconds, left=ends, height=0.66, label=name, color=colour)
            ends = [end + more for end, more in zip(ends, seconds, strict=True)]
        for row, end in zip(rows, ends, strict=True):
            _write_beside(axes, figures.seconds(end), (end, row), "data")
        axes.set_yticks(rows, [_wrapped(group.label) for group in groups])
        axes.set_xlim(0, max(ends) * 1.18 or 1.0)
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0)
        axes.set(xlabel="time [s]")
        figure.legend(loc="outside upper center", ncols=4, columnspacing=1.2, handlelength=1.0)
        svg = _to_svg(figure, "phases")
    caption = "The mean over ranks and runs; evaluation is no training time."
    return Plot("Where the time went", caption, svg)


def _points(curve: Curve, *, in_training: bool) -> tuple[list[float], list[float]]:
    clock = curve.training_seconds if in_training else curve.wall_seconds
    pairs = list(zip(clock, curve.values, strict=True))
    known = [
        (seconds, value) for seconds, value in pairs if seconds is not None and value is not None
    ]
    return [seconds for seconds, _ in known], [value for _, value in known]


def _mark_reaching(axes: Axes, result: Result, colour: str, *, in_training: bool) -> None:
    """Put a dot where a run reached its goal."""
    reached = result.time_to_accuracy
    if reached is None or result.target is None:
        return
    seconds = reached.training_seconds if in_training else reached.wall_seconds
    if seconds is not None:
        axes.plot([seconds], [result.target.value], marker="o", color=colour, zorder=3)


def _draw_goals(axes: Axes, targets: Sequence[Goal]) -> None:
    for target in dict.fromkeys(targets):
        axes.axhline(target.value, color=_INK, linestyle=_DASHED, linewidth=1.1, zorder=1)
        text = f"goal\n{target.value:g}"
        _write_beside(axes, text, (1, target.value), ("axes fraction", "data"))


def _write_beside(axes: Axes, text: str, place: tuple[float, float], coordinates: Any) -> None:
    axes.annotate(
        text,
        place,
        xycoords=coordinates,
        xytext=(4, 0),
        textcoords="offset points",
        verticalalignment="center",
        fontsize=9,
    )


def _differ_in_workers(groups: Sequence[Group]) -> bool:
    return len({group.num_workers for group in groups}) == len(groups)


def _tick(group: Group, scale_out: bool) -> str:
    label = str(group.num_workers) if scale_out else _wrapped(group.label, _TICK_COLUMNS)
    runs = len(group.run_ids)
    return label if group.reached == runs else f"{label}\n({group.reached} of {runs})"


def _wrapped(label: str, columns: int = _LABEL_COLUMNS) -> str:
    """Return a label on at most three short lines: of a longer one its first and last line."""
    lines = textwrap.wrap(label, columns, break_on_hyphens=False)
    return "\n".join(lines if len(lines) <= _MOST_LINES else [lines[0], "…", lines[-1]])


@contextmanager
def _canvas(height: float = _HEIGHT) -> Iterator[tuple[Figure, Axes]]:
    """Give an empty figure of this height in inches; call ``_to_svg`` within the block."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        yield figure, figure.subplots()


def _to_svg(figure: Figure, name: str) -> str:
    """Return a figure as an ``<svg>`` element, whose ids begin with ``name``."""
    text = io.StringIO()
    with warnings.catch_warnings():
        # matplotlib's font lacks some characters; the page's font shows them.
        warnings.filterwarnings("ignore", message="Glyph")
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]  # without the head of an XML file
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", svg)
    for size in ("width", "height"):
        svg = re.sub(rf'(<svg[^>]*?) {size}="[^"]*"', r"\1", svg, count=1)
    for colour, pages_name in _PAGES_NAMES.items():
        svg = svg.replace(colour, pages_name)
    # Sizes stay, the family is the page's.
    return re.sub(r"(font: [^;\"']*?px)[^;\"]*", r"\1 sans-serif", svg)
