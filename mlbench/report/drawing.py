"""How plots are drawn: matplotlib to SVG that takes its colours and font from the page it is in.

matplotlib draws with colours that stand for the page's: ``INK`` for texts and axes, ``FAINT`` for
what lies behind, ``SERIES`` for what is compared. At the end they are exchanged for CSS's names,
so that one drawing suits a light page, a dark one, and paper.
"""

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK, FAINT = "#010203", "#040506"
SERIES = tuple(f"#0a00{i:02x}" for i in range(7))
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


@contextmanager
def canvas(height: float = _HEIGHT) -> Iterator[tuple[Figure, Axes]]:
    """Give an empty figure of so many inches; draw and call ``to_svg`` within the block."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        yield figure, figure.subplots()


def to_svg(figure: Figure, name: str) -> str:
    """Return a figure as an ``<svg>`` element; ``name`` tells its ids from those of others."""
    text = io.StringIO()
    with warnings.catch_warnings():
        # The font that is to show a name is the page's.
        warnings.filterwarnings("ignore", message="Glyph")
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]  # a page has a head of its own
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", svg)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    for colour, pages_name in _PAGES_NAMES.items():
        svg = svg.replace(colour, pages_name)
    # Sizes stay, the family is the page's.
    return re.sub(r"(font: [^;\"']*?px)[^;\"]*", r"\1 sans-serif", svg)
