"""How the values of options are read."""

import pytest
import typer

from mlbench.cli.options import read_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("3600", 3600.0), ("90s", 90.0), ("15m", 900.0), ("2h", 7200.0), ("1.5h", 5400.0)],
)
def test_a_time_has_a_unit_or_is_in_seconds(text: str, seconds: float) -> None:
    assert read_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "5x", "-5", "0", "0h", "1h30m", "٣"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is no time: write 3600, 90s, 15m or 2h"):
        read_duration(text)
