"""Colours of states and phases: complete, and distinct from the background."""

from collections.abc import Iterator
from itertools import combinations, pairwise
from math import cbrt, dist

import pytest

from mlbench.contract import names, palette

_PAPERS = ("#ffffff", "#14171b")


def _linear(colour: str) -> Iterator[float]:
    """Yield the linear red, green and blue components of an sRGB colour, from 0 to 1."""
    for i in (1, 3, 5):
        channel = int(colour[i : i + 2], 16) / 255
        yield channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4


def _luminance(colour: str) -> float:
    """Return the relative luminance as defined by WCAG 2."""
    red, green, blue = _linear(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours as defined by WCAG 2, from 1 to 21."""
    darker, lighter = sorted([_luminance(one), _luminance(other)])
    return (lighter + 0.05) / (darker + 0.05)


def _lab(colour: str) -> tuple[float, float, float]:
    """Convert a colour to CIELAB (D65)."""
    red, green, blue = _linear(colour)
    x, y, z = (
        cbrt(t) if t > 216 / 24389 else (24389 / 27 * t + 16) / 116
        for t in (
            (0.4124564 * red + 0.3575761 * green + 0.1804375 * blue) / 0.95047,
            0.2126729 * red + 0.7151522 * green + 0.0721750 * blue,
            (0.0193339 * red + 0.1191920 * green + 0.9503041 * blue) / 1.08883,
        )
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def difference(first: str, second: str) -> float:
    """Return the CIE 1976 difference of two colours."""
    return dist(_lab(first), _lab(second))


def test_the_difference_of_black_and_white_is_100() -> None:
    assert difference("#000000", "#ffffff") == pytest.approx(100, abs=0.01)


@pytest.mark.parametrize("paper", _PAPERS)
def test_states_and_curves_stand_out_from_the_background(paper: str) -> None:
    for colours in (palette.RUN_STATE, palette.OUTCOME, palette.POD_PHASE):
        assert min(contrast(colour, paper) for colour in colours.values()) >= 3
    assert min(contrast(colour, paper) for colour in palette.SERIES) >= 2


def test_colours_of_curves_differ() -> None:
    pairs = combinations(palette.BY_LAST_DIGIT, 2)
    assert min(difference(first, second) for first, second in pairs) >= 20


def test_neighbouring_phases_differ_in_colour() -> None:
    colours = [palette.PHASE[phase] for phase in names.PHASES]
    assert min(difference(*pair) for pair in pairwise(colours)) >= 20


def test_buckets_differ_in_colour_even_if_those_between_are_absent() -> None:
    of_buckets = dict([*palette.PHASE.items(), *palette.BUCKET.items()])
    colours = [of_buckets[bucket] for bucket in names.BUCKETS if bucket != "unknown"]
    assert len(set(colours)) == len(colours)
    # Nearly all runs have compute time. Any of the buckets after it may be absent.
    computing = names.BUCKETS.index("compute")
    before = [pair for at in (1, 2) for pair in zip(colours, colours[at:], strict=False)]
    pairs = [*before, *combinations(colours[computing:], 2)]
    assert min(difference(*pair) for pair in pairs) >= 20


def test_no_phase_has_the_colour_of_a_curve() -> None:
    assert not {palette.TRAINING, palette.VALIDATION, palette.TARGET} & set(palette.PHASE.values())


def test_texts_are_legible_on_every_colour_of_a_heat_map() -> None:
    assert min(contrast(colour, ink) for colour, ink in palette.HEAT) >= 4.5
