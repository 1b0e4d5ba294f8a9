"""The colours of states and phases: complete, and such that they can be told from the paper."""

from collections.abc import Iterable

import pytest

from mlbench.contract import palette

_PAPERS = ("#ffffff", "#14171b")


def _luminance(colour: str) -> float:
    """Return the relative luminance, as WCAG 2 defines it."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Return how much two colours differ in lightness, from 1 to 21, as WCAG 2 defines it."""
    darker, lighter = sorted([_luminance(one), _luminance(other)])
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("paper", _PAPERS)
@pytest.mark.parametrize(
    "colours",
    [
        palette.SERIES,
        palette.RUN_STATE.values(),
        palette.POD_PHASE.values(),
        palette.PHASE.values(),
        palette.BUCKET.values(),
    ],
)
def test_colours_stand_out_from_the_paper(colours: Iterable[str], paper: str) -> None:
    assert min(contrast(colour, paper) for colour in colours) >= 3


def test_no_phase_has_the_colour_of_a_curve() -> None:
    assert not {palette.TRAINING, palette.VALIDATION, palette.TARGET} & set(palette.PHASE.values())


def test_texts_can_be_read_on_every_colour_of_a_heat_map() -> None:
    assert min(contrast(colour, ink) for colour, ink in palette.HEAT) >= 4.5
