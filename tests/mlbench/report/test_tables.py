"""The tables of a report."""

from dataclasses import replace

from mlbench.report.tables import Table, tables
from tests.mlbench.report.making import (
    make_aimless,
    make_comparison,
    make_matrix,
    make_result,
    make_unreached,
)


def columns(table: Table) -> dict[str, list[str]]:
    """Return a table's cells by the head of their column."""
    cells = zip(*table.rows, strict=True)
    return {
        heading.text: list(column) for heading, column in zip(table.headings, cells, strict=True)
    }


def test_a_set_has_every_table() -> None:
    reached, throughput, phases, runs = tables(make_matrix((1, 2, 4), 5))
    found = columns(reached)
    assert found["group"] == ["1 worker", "2 workers", "4 workers"]
    assert found["reached"] == ["5/5"] * 3
    assert found["mean"] == ["7.85", "4.51", "2.59"]
    assert found["speed-up"] == ["1.00", "1.74", "3.03"]
    assert found["efficiency"] == ["100.0", "87.1", "75.8"]
    assert "as MLPerf's do" in reached.note
    assert columns(throughput)["throughput"] == ["1,649", "2,871", "4,998"]
    assert columns(throughput)["comm. share"] == ["5.00", "10.00", "20.00"]
    assert [row[0] for row in phases.rows[:3]] == ["data", "forward", "backward"]
    assert phases.rows[-1] == ("sum", "9.94", "6.01", "3.80")
    assert columns(runs)["run"] == [str(i) for i in range(1, 16)]


def test_a_goal_that_was_not_reached_has_no_mean() -> None:
    comparison = make_comparison([make_result(1), make_unreached(2, repeat=2)])
    reached, *_, runs = tables(comparison)
    assert columns(reached)["reached"] == ["1/2"]
    assert "mean" not in columns(reached)
    assert columns(runs)["reached"] == ["7.42", "-"]


def test_without_a_goal_there_is_nothing_to_reach() -> None:
    found = tables(make_comparison([make_aimless(1), make_aimless(2, 2)]))
    assert [table.title for table in found] == [
        "Throughput and cost",
        "Where the time went",
        "Runs",
    ]
    assert not {"reached", "best", "energy", "price"} & columns(found[-1]).keys()


def test_a_run_that_failed_or_departs_is_marked() -> None:
    phases, alone = tables(make_comparison([make_result(1)]))
    assert (phases.title, alone.title) == ("Where the time went", "Runs"), "no groups"
    assert "state" not in columns(alone)
    failed = replace(make_result(2), state="FAILED", departures=("its goal is 90",))
    both = columns(tables(make_comparison([make_result(1), failed]))[-1])
    assert both["state"] == ["FINISHED", "FAILED"]
    assert both["division"] == ["closed", "closed*"]


def test_phases_of_ones_own_follow_the_known_ones() -> None:
    own = replace(make_result(1), phases={"zeta": 1.0, "other": 2.0, "forward": 3.0})
    phases = tables(make_comparison([own]))[0]
    assert [row[0] for row in phases.rows] == ["forward", "other", "zeta", "sum"]
