"""The options that commands have of the spec of a run."""

import pytest
import typer

from mlbench.cli.spec import DURATION, read_quantity
from mlbench.contract.runspec import RunSpec, options_of

OPTIONS = options_of(RunSpec)


def test_a_duration_has_a_unit_or_is_in_seconds() -> None:
    read = {text: read_quantity(text, DURATION) for text in ("3600", "90s", "15m", "2h", "1.5h")}
    assert [*read.values()] == [3600.0, 90.0, 900.0, 7200.0, 5400.0]
    for text in ("", "h", "5x", "0.", "1h30m", "\N{ARABIC-INDIC DIGIT THREE}"):
        with pytest.raises(typer.BadParameter, match="must be of the form 90s, 15m or 2h"):
            read_quantity(text, DURATION)
    for text in ("-5", "0", "0h"):
        with pytest.raises(typer.BadParameter, match=rf"more than 0 s, .*got {text}"):
            read_quantity(text, DURATION)


def test_a_bandwidth_has_a_unit_or_is_in_mbit() -> None:
    option = OPTIONS["max_bandwidth"]
    texts = ("20", "0.5Mbit", "20Mbit/s", "2Gbit", "64kbit")
    assert [read_quantity(text, option) for text in texts] == [20.0, 0.5, 20.0, 2000.0, 0.064]
    for text in ("", "20mb", "20MB/s", "fast", "20 Mbit", "/s"):
        with pytest.raises(typer.BadParameter, match="must be of the form 20Mbit"):
            read_quantity(text, option)
    with pytest.raises(typer.BadParameter, match=r"more than 0 Mbit/s, such as 20Mbit \(got 0\)"):
        read_quantity("0", option)


def test_a_whole_number_is_whole() -> None:
    assert read_quantity("3", OPTIONS["num_workers"]) == 3
    with pytest.raises(typer.BadParameter, match=r"a whole number \(got 1\.5\)"):
        read_quantity("1.5", OPTIONS["num_workers"])
