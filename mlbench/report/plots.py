"""The plots of a comparison: sweeps, the metric over time, time to target, speed-up, phases."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from mlbench.contract import palette
from mlbench.contract.comparisons import Comparison, Group
from mlbench.contract.records import Target
from mlbench.contract.results import Curve, Result
from mlbench.contract.sweeps import Chart, Frontier, Sweep
from mlbench.report import figures
from mlbench.report.drawing import DASHED, FAINT, INK, SERIES, Plot, canvas, style, to_svg, wrapped
from mlbench.report.tables import phase_names

_OF_PHASES: dict[str, str] = {str(phase): colour for phase, colour in palette.PHASE.items()}

_MAX_IN_LEGEND = 10
_TICK_COLUMNS = 16
# The axis is logarithmic if the last group has this many times the workers of the first.
_WIDE_RANGE = 8
# Up to which performance profiles are drawn, as AlgoPerf's.
_MAX_TIMES = 4.0
# The width of a group's dots, where 1 is the distance of two groups.
_SPREAD = 0.3
# The height of the axis, where 1 is the longest time.
_ROOM = 1.08


def plots(comparison: Comparison) -> list[Plot]:
    """Return the plots that a comparison has the figures for."""
    sweep = comparison.sweep
    charts = sweep.charts if sweep else ()
    of_sweep = [_sweep(sweep, chart, f"sweep-{i}") for i, chart in enumerate(charts) if sweep]
    if comparison.frontier:
        of_sweep.append(_profiles(comparison.frontier))
    if of_sweep and len(comparison.groups) > _MAX_IN_LEGEND:
        return of_sweep
    metrics = dict.fromkeys(result.target.metric for result in comparison.results if result.target)
    drawn = [
        *of_sweep,
        *(_metric_over_time(comparison, metric, f"metric-{i}") for i, metric in enumerate(metrics)),
        _time_to_target(comparison),
        _speedup(comparison.groups),
        _phases(comparison.groups),
    ]
    return [plot for plot in drawn if plot is not None]


def _sweep(sweep: Sweep, chart: Chart, name: str) -> Plot:
    """Plot a figure over a swept value: a line for each value of another one."""
    across, by = sweep.across, sweep.by
    places = across.numbers or tuple(map(float, range(len(across.values))))
    with canvas() as (figure, axes):
        for i, row in enumerate(chart.cells):
            filled = [(x, cell) for x, cell in zip(places, row, strict=True) if cell]
            # How far the interval of a figure reaches below and above it; 0 where there is none.
            below = [0.0 if cell.low is None else cell.mean - cell.low for _, cell in filled]
            above = [0.0 if cell.high is None else cell.high - cell.mean for _, cell in filled]
            colour, line = style(i)
            axes.errorbar(
                [x for x, _ in filled],
                [cell.mean for _, cell in filled],
                yerr=[below, above],
                color=colour,
                # Connected only if there is something in between.
                linestyle=line if across.numbers else "",
                marker="o",
                markersize=4,
                capsize=3,
                label=by and wrapped(by.values[i]),
            )
        if across.is_wide:
            axes.set_xscale("log")
        if chart.is_wide:
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
        plain = FuncFormatter(lambda value, _: f"{value:,g}")
        axes.yaxis.set_major_formatter(plain)
        axes.xaxis.set_minor_locator(NullLocator())
        names = [value.removesuffix(across.unit) for value in across.values]
        axes.set_xticks(places, [wrapped(value, _TICK_COLUMNS) for value in names])
        axes.set(xlabel=across.title, ylabel=chart.axis)
        if by and len(by.values) <= _MAX_IN_LEGEND:
            figure.legend(loc="outside right upper", title=by.key)
        caption = "Each dot is the mean of a group, with its 95 % interval."
        return Plot(chart.title, caption, to_svg(figure, name))


def _profiles(frontier: Frontier) -> Plot:
    """Plot the share of workloads on which each algorithm is nearly the fastest."""
    with canvas() as (figure, axes):
        for i, profile in enumerate(frontier.profiles):
            ratios = [x for x in profile.ratios if x is not None and x <= _MAX_TIMES]
            steps = [1.0, *ratios, _MAX_TIMES]
            shares = [profile.share(times) for times in steps]
            colour, line = style(i)
            label = wrapped(profile.algorithm)
            axes.step(steps, shares, where="post", color=colour, linestyle=line, label=label)
        axes.set_ylim(0, 1.03)
        axes.set_xlim(1, _MAX_TIMES)
        axes.set(xlabel="time by that of the fastest", ylabel="share of workloads")
        if len(frontier.profiles) <= _MAX_IN_LEGEND:
            figure.legend(loc="outside right upper")
        caption = (
            "On which share of the workloads each takes at most so many times as long as the best."
        )
        return Plot("Performance profiles", caption, to_svg(figure, "profiles"))


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
    with canvas() as (figure, axes):
        for result, curve in sorted(curves, key=lambda drawn: places[drawn[0].run_id]):
            place = places[result.run_id]
            times, values = _points(curve, in_training=in_training)
            colour, line = style(place)
            # A single evaluation is no line.
            marker = "." if len(times) == 1 else ""
            label = None if place in named else wrapped(comparison.groups[place].label)
            named.add(place)
            axes.plot(times, values, color=colour, linestyle=line, marker=marker, label=label)
            _mark_reaching(axes, result, colour, in_training=in_training)
        _draw_targets(axes, [result.target for result, _ in curves if result.target])
        clock = "training time" if in_training else "time since the start"
        axes.set(xlabel=f"{clock} [s]", ylabel=wrapped(metric))
        axes.set_xlim(left=0)
        if len(named) <= _MAX_IN_LEGEND:
            axes.legend(loc="best")
        caption = "Each line is a run; its dot is where it reached the target."
        return Plot(f"{metric} over {clock}", caption, to_svg(figure, name))


def _time_to_target(comparison: Comparison) -> Plot | None:
    seconds = {
        result.run_id: result.seconds_to_target
        for result in comparison.results
        if result.seconds_to_target is not None
    }
    if not seconds or len(comparison.results) == 1:
        return None
    groups = comparison.groups
    scale_out = _differ_in_workers(groups)
    with canvas() as (figure, axes):
        for place, group in enumerate(groups):
            values = [seconds[run] for run in group.run_ids if run in seconds]
            step = _SPREAD / max(1, len(values) - 1)
            across = [place + step * (i - (len(values) - 1) / 2) for i in range(len(values))]
            axes.scatter(across, values, s=34, color=SERIES[place % len(SERIES)], alpha=0.8)
        summaries = [group.training_seconds_to_target for group in groups]
        means = {i: its.mean for i, its in enumerate(summaries) if its and its.mean is not None}
        axes.plot(
            [*means],
            [*means.values()],
            # Connected only if the groups differ in nothing but their workers.
            linestyle="-" if scale_out else "",
            linewidth=1,
            color=INK,
            marker="_",
            markersize=22,
            markeredgewidth=1.6,
        )
        axes.set_xticks(range(len(groups)), [_tick(group, scale_out) for group in groups])
        axes.set_xlim(-0.6, len(groups) - 0.4)
        axes.set_ylim(0, _ROOM * max(seconds.values()) or 1.0)
        axes.grid(visible=False, axis="x")
        axes.tick_params(axis="x", length=0)
        axes.set(xlabel="workers" if scale_out else "", ylabel="training time to the target [s]")
        caption = "Each dot is a run that reached the target, each bar the mean of its group."
        return Plot("Time to target", caption, to_svg(figure, "time-to-accuracy"))


def _speedup(groups: Sequence[Group]) -> Plot | None:
    if len(groups) == 1 or not _differ_in_workers(groups):
        return None
    workers = [group.num_workers for group in groups]
    lines = [
        ("time to target", "o", [group.speedup for group in groups]),
        ("throughput", "s", [group.throughput_speedup for group in groups]),
    ]
    # The first group is always 1: that alone is no measurement.
    measured = [line for line in lines if sum(value is not None for value in line[2]) > 1]
    if not measured:
        return None
    with canvas() as (figure, axes):
        ideal = [count / workers[0] for count in workers]
        axes.plot(workers, ideal, color=INK, linestyle=DASHED, linewidth=1.1, label="ideal")
        for colour, (label, marker, values) in zip(SERIES, measured, strict=False):
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
        caption = f"How many times as fast as {groups[0].label}."
        return Plot("Speed-up", caption, to_svg(figure, "speed-up"))


def _phases(groups: Sequence[Group]) -> Plot | None:
    names = phase_names(groups)
    if not names:
        return None
    rows = range(len(groups))
    with canvas(height=1.6 + 0.5 * len(groups)) as (figure, axes):
        ends = [0.0] * len(groups)
        for name in names:
            seconds = [group.phases.get(name, 0.0) for group in groups]
            colour = _OF_PHASES.get(name, FAINT)
            axes.barh(rows, seconds, left=ends, height=0.66, label=name, color=colour)
            ends = [end + more for end, more in zip(ends, seconds, strict=True)]
        for row, end in zip(rows, ends, strict=True):
            _write_beside(axes, figures.seconds(end), (end, row), "data")
        axes.set_yticks(rows, [wrapped(group.label) for group in groups])
        axes.set_xlim(0, max(ends) * 1.18 or 1.0)
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0)
        axes.set(xlabel="time [s]")
        figure.legend(loc="outside upper center", ncols=4, columnspacing=1.2, handlelength=1.0)
        caption = "The mean over ranks and runs; evaluation is no training time."
        return Plot("Time breakdown", caption, to_svg(figure, "phases"))


def _points(curve: Curve, *, in_training: bool) -> tuple[list[float], list[float]]:
    clock = curve.training_seconds if in_training else curve.wall_seconds
    pairs = zip(clock, curve.values, strict=True)
    known = [(s, value) for s, value in pairs if s is not None and value is not None]
    return [seconds for seconds, _ in known], [value for _, value in known]


def _mark_reaching(axes: Axes, result: Result, colour: str, *, in_training: bool) -> None:
    """Put a dot where a run reached its target."""
    reached = result.time_to_target
    if reached is None or result.target is None:
        return
    seconds = reached.training_seconds if in_training else reached.wall_seconds
    if seconds is not None:
        axes.plot([seconds], [result.target.value], marker="o", color=colour, zorder=3)


def _draw_targets(axes: Axes, targets: Sequence[Target]) -> None:
    for target in dict.fromkeys(targets):
        axes.axhline(target.value, color=INK, linestyle=DASHED, linewidth=1.1, zorder=1)
        text = f"target\n{target.value:g}"
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
    label = str(group.num_workers) if scale_out else wrapped(group.label, _TICK_COLUMNS)
    runs = len(group.run_ids)
    return label if group.reached == runs else f"{label}\n({group.reached} of {runs})"
