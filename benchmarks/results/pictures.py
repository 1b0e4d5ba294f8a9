"""Pictures of a comparison for the page of results: lines as SVG files."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from mlbench.contract import palette
from mlbench.contract.comparisons import Comparison, Group
from mlbench.contract.sweeps import Chart, Sweep

_INK, _FAINT, _PAPER = "#14171c", "#c3c9d1", "#ffffff"
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 560, 300, 64, 28, 14, 44
_ROW, _LETTER = 20, 6.2  # pixels: a row of text, and the mean width of a letter
_DASHES = ("", "6 3", "2 2")
_MOST_LINES = 10
_TICKS = 5


@dataclass(frozen=True)
class Picture:
    """A picture, and how to read it."""

    title: str
    caption: str
    svg: str


@dataclass(frozen=True)
class _Line:
    name: str
    points: Sequence[tuple[float, float]]
    intervals: Sequence[tuple[float, float, float]] = ()
    """Place, low and high end of each interval."""
    is_dotted: bool = False
    """Whether points are marked instead of connected."""


def pictures(comparison: Comparison) -> list[Picture]:
    """Return the pictures for which a comparison has figures."""
    sweep = comparison.sweep
    drawn = [_sweep(sweep, chart) for chart in sweep.charts] if sweep else []
    if drawn and len(comparison.groups) > _MOST_LINES:
        return drawn
    metrics = dict.fromkeys(result.target.metric for result in comparison.results if result.target)
    drawn += [picture for metric in metrics for picture in _metric(comparison, metric)]
    return [*drawn, *_speedup(comparison.groups)]


def _sweep(sweep: Sweep, chart: Chart) -> Picture:
    across, by = sweep.across, sweep.by
    places = across.numbers or tuple(map(float, range(len(across.values))))
    lines = []
    for i, row in enumerate(chart.cells):
        cells = [(x, cell) for x, cell in zip(places, row, strict=True) if cell]
        intervals = [
            (x, c.low, c.high) for x, c in cells if c.low is not None and c.high is not None
        ]
        name = by.values[i] if by else ""
        lines.append(_Line(name, [(x, c.mean) for x, c in cells], intervals, not across.numbers))
    svg = _draw(
        lines,
        (across.title, chart.axis),
        (across.is_wide, chart.is_wide),
        [*zip(places, across.values, strict=True)],
    )
    return Picture(chart.title, "Each dot is the mean of a group, with its 95 % interval.", svg)


def _metric(comparison: Comparison, metric: str) -> Iterator[Picture]:
    lines, targets = [], set()
    for group in comparison.groups:
        for result in comparison.results:
            target, curve = result.target, result.curve
            if result.run_id in group.run_ids and curve and target and target.metric == metric:
                targets.add(target.value)
                both = zip(curve.training_seconds, curve.values, strict=True)
                points = [(x, y) for x, y in both if x is not None and y is not None]
                lines.append(_Line(group.label, points))
    lines = [line for line in lines if line.points]
    if lines:
        svg = _draw(lines, ("training time [s]", metric), levels=sorted(targets))
        yield Picture(f"{metric} over training time", "Each line is a run.", svg)


def _speedup(groups: Sequence[Group]) -> Iterator[Picture]:
    workers = [float(group.num_workers) for group in groups]
    if len({*workers}) < max(2, len(workers)):
        return
    measured: dict[str, Sequence[float | None]] = {
        "ideal": [count / workers[0] for count in workers],
        "time to target": [group.speedup for group in groups],
        "throughput": [group.throughput_speedup for group in groups],
    }
    lines = [
        _Line(name, [(x, y) for x, y in zip(workers, values, strict=True) if y is not None])
        for name, values in measured.items()
    ]
    ticks = [(count, f"{count:g}") for count in workers]
    svg = _draw([line for line in lines if line.points[1:]], ("workers", "speed-up"), ticks=ticks)
    yield Picture("Speed-up", f"How many times as fast as {groups[0].label}.", svg)


# --- Drawing ---


def _draw(
    lines: Sequence[_Line],
    titles: tuple[str, str],
    is_log: tuple[bool, bool] = (False, False),
    ticks: Sequence[tuple[float, str]] = (),
    levels: Sequence[float] = (),
) -> str:
    """Return lines over axes with these titles, ticks on the first axis, and horizontal levels."""
    xs = [x for line in lines for x, _ in line.points] + ([] if ticks else [0.0])
    ys = [y for line in lines for _, y in line.points] + ([] if is_log[1] else [0.0, *levels])
    ys += [end for line in lines for _, *ends in line.intervals for end in ends]
    x, y = _scale(xs, is_log[0], _LEFT, _WIDTH - _RIGHT), _scale(ys, is_log[1], _HEIGHT, _TOP)
    parts = []
    for value in _ticks(ys, is_log=is_log[1]):
        parts.append(_path([(_LEFT, y(value)), (_WIDTH - _RIGHT, y(value))], _FAINT))
        parts.append(_text(_LEFT - 8, y(value) + 4, f"{value:,g}", "end"))
    for value, name in ticks or [(v, f"{v:,g}") for v in _ticks(xs, is_log=is_log[0])]:
        parts.append(_text(x(value), _HEIGHT + 18, name, "middle"))
    parts.append(_text((_LEFT + _WIDTH) / 2, _HEIGHT + 36, titles[0], "middle"))
    turned = f'<g transform="rotate(-90 14 {_HEIGHT / 2})">'
    parts.append(f"{turned}{_text(14, _HEIGHT / 2 + 4, titles[1], 'middle')}</g>")
    parts += [_path([(_LEFT, y(v)), (_WIDTH - _RIGHT, y(v))], _INK, "5 3") for v in levels]
    parts += [_text(_LEFT + 4, y(v) - 4, f"target {v:g}") for v in levels]
    names = [*dict.fromkeys(line.name for line in lines)]
    swatches = []
    for i, name in enumerate(names):
        colour = palette.SERIES[i % len(palette.SERIES)]
        dash = _DASHES[i // len(palette.SERIES) % len(_DASHES)]
        swatches.append((name, colour, dash))
        for line in (line for line in lines if line.name == name):
            parts += [
                _path([(x(at), y(low)), (x(at), y(high))], colour)
                for at, low, high in line.intervals
            ]
            places = [(x(at), y(value)) for at, value in line.points]
            if line.is_dotted or line.intervals or len(places) == 1:
                parts += [
                    f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in places
                ]
            if not line.is_dotted:
                parts.append(_path(places, colour, dash, 1.8))
    return _page(parts, swatches if len(names) > 1 else [], _HEIGHT + _BOTTOM)


@dataclass(frozen=True)
class _Scale:
    low: float
    high: float
    start: float
    end: float
    is_log: bool

    def __call__(self, value: float) -> float:
        ends = (self.low, self.high, value)
        low, high, at = map(math.log10, ends) if self.is_log else ends
        return self.start + (at - low) / (high - low) * (self.end - self.start)


def _scale(values: Sequence[float], is_log: bool, start: float, end: float) -> _Scale:
    low, high = min(values), max(values)
    if is_log:
        return _Scale(low, high if high > low else 10 * low, start, end, is_log)
    return _Scale(low, high if high > low else low + 1, start, end, is_log)


def _ticks(values: Sequence[float], *, is_log: bool) -> list[float]:
    scale = _scale(values, is_log, 0, 1)
    if is_log:
        powers = range(math.floor(math.log10(scale.low)), math.ceil(math.log10(scale.high)) + 1)
        ticks = [factor * 10.0**power for power in powers for factor in (1, 2, 5)]
        return [tick for tick in ticks if scale.low <= tick <= scale.high]
    step = 10 ** math.floor(math.log10((scale.high - scale.low) / _TICKS))
    step *= next((f for f in (1, 2, 5) if (scale.high - scale.low) / (f * step) <= _TICKS), 10)
    first, last = math.ceil(scale.low / step), math.floor(scale.high / step)
    return [round(i * step, 10) for i in range(first, last + 1)]


def _page(parts: Sequence[str], swatches: Sequence[tuple[str, str, str]], height: float) -> str:
    """Return an SVG file with a legend below its parts."""
    legend, x, y = [], 16.0, height + 14
    for name, colour, dash in swatches:
        width = 34 + _LETTER * len(name)
        if x + width > _WIDTH and x > 16:
            x, y = 16.0, y + _ROW
        legend += [_path([(x, y), (x + 18, y)], colour, dash, 4), _text(x + 24, y + 4, name)]
        x += width + 12
    size = f'width="{_WIDTH}" height="{y + 12:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {_WIDTH} {y + 12:.0f}"'
    font = f'font-family="Inter, sans-serif" font-size="12" fill="{_INK}">'
    paper = f'<rect width="100%" height="100%" fill="{_PAPER}"/>'
    return "\n".join([f"{head} {font}", paper, *parts, *legend, "</svg>\n"])


def _path(
    points: Sequence[tuple[float, float]], colour: str, dash: str = "", width: float = 1
) -> str:
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    stroke = f'stroke="{colour}" stroke-width="{width:g}"{dashes}'
    return f'<polyline points="{places}" fill="none" {stroke}/>'


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
