"""Drawings by matplotlib, as SVG for a page.

Their colours stand for those of the page: ``INK`` for texts and axes, ``FAINT`` for what lies
behind, ``SERIES`` for what is compared. At the end they are replaced by CSS names, so that one
drawing suits a light page, a dark one, and paper.
"""

import io
import re
import textwrap
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mlbench.contract import palette

INK, FAINT = "#010203", "#040506"
SERIES = tuple(f"#0a00{i:02x}" for i in range(len(palette.SERIES)))
DASHED = (0, (5, 3))

_PAGES_NAMES = {INK: "currentColor", FAINT: "var(--faint)"} | {
    colour: f"var(--series-{i})" for i, colour in enumerate(SERIES)
}
_WIDTH, _HEIGHT = 5.6, 3.6  # inches; the page scales them
# As matplotlib types it, its parameters are a closed list that grows with its version.
_STYLE: Any = {
    "svg.fonttype": "none",  # texts stay texts, in the page's font
    "svg.hashsalt": "mlbench",  # the same figures give the same drawing
    "font.size": 10,
    "text.color": INK,
    "text.parse_math": False,  # a dollar in a name is a dollar
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": FAINT,
    "grid.alpha": 0.45,
    "grid.linewidth": 0.6,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.4,
    "lines.markersize": 6,
}
_LINES = ("-", "--", ":", "-.")
_LABEL_COLUMNS = 24
_MAX_LINES = 3


@dataclass(frozen=True)
class Plot:
    """A drawing, and how to read it."""

    title: str
    caption: str
    svg: str


def style(place: int) -> tuple[str, str]:
    """Return the colour and the kind of line of what has this place among all that is drawn."""
    return SERIES[place % len(SERIES)], _LINES[place // len(SERIES) % len(_LINES)]


def wrapped(label: str, columns: int = _LABEL_COLUMNS) -> str:
    """Return a label on at most three short lines: of a longer one its first and last line."""
    lines = textwrap.wrap(label, columns, break_on_hyphens=False)
    return "\n".join(lines if len(lines) <= _MAX_LINES else [lines[0], "…", lines[-1]])


@contextmanager
def canvas(height: float = _HEIGHT) -> Iterator[tuple[Figure, Axes]]:
    """Give an empty figure of this height in inches; call ``to_svg`` within the block."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        yield figure, figure.subplots()


def to_svg(figure: Figure, name: str) -> str:
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
