"""Options of commands that become part of a run's request."""

import pytest
import typer

from mlbench.cli.spec import AGE, DURATION, PERCENT, SIZE, read_quantity
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


def test_a_whole_number_has_no_fraction() -> None:
    assert read_quantity("3", OPTIONS["num_workers"]) == 3
    with pytest.raises(typer.BadParameter, match=r"a whole number \(got 1\.5\)"):
        read_quantity("1.5", OPTIONS["num_workers"])


def test_a_percentage_may_have_its_sign() -> None:
    assert read_quantity("5%", PERCENT) == read_quantity("5", PERCENT) == 5
    with pytest.raises(typer.BadParameter, match="must be of the form 5%"):
        read_quantity("half", PERCENT)
    with pytest.raises(typer.BadParameter, match="less than 100%"):
        read_quantity("200%", PERCENT)


def test_an_age_is_in_days_or_weeks() -> None:
    assert [read_quantity(text, AGE) for text in ("90d", "12w", "1.5d", "0d")] == [90, 84, 1.5, 0]
    for text in ("90", "d", "90 days", "1m"):
        with pytest.raises(typer.BadParameter, match="must be of the form 90d or 12w"):
            read_quantity(text, AGE)
    with pytest.raises(typer.BadParameter, match="from 0 to 100000 days, such as 90d or 12w"):
        read_quantity("-1d", AGE)


def test_a_size_has_a_unit_of_bytes_in_any_case() -> None:
    read = [read_quantity(text, SIZE) for text in ("0", "7B", "1K", "500MB", "500mb", "1.5TB")]
    assert read == [0, 7, 1e3, 5e8, 5e8, 1.5e12]
    for text in ("GB", "1GiB", "1 GB", "1,5GB"):
        with pytest.raises(typer.BadParameter, match="must be of the form 500MB or 20GB"):
            read_quantity(text, SIZE)
    with pytest.raises(typer.BadParameter, match=r"at least 0 bytes, such as .* \(got -1\)"):
        read_quantity("-1", SIZE)
