"""Tables of reports."""

from dataclasses import replace

from mlbench.report.tables import ReportTable, tables
from tests.support import results


def columns(table: ReportTable) -> dict[str, list[str]]:
    """Return the cells of a table by column heading."""
    cells = zip(*table.rows, strict=True)
    return {column.text: list(values) for column, values in zip(table.columns, cells, strict=True)}


def test_a_missed_target_has_no_mean() -> None:
    runs_of_group = [results.make_result(1), results.make_unreached(2, repeat=2)]
    reached, *_, runs = tables(results.make_comparison(runs_of_group))
    assert columns(reached)["reached"] == ["1/2"]
    assert "mean" not in columns(reached)
    assert columns(runs)["reached"] == ["7.42", "-"]


def test_runs_without_a_target_have_no_columns_for_it() -> None:
    found = tables(results.make_comparison([results.make_aimless(1), results.make_aimless(2, 2)]))
    assert [table.title for table in found] == ["Throughput and cost", "Time breakdown", "Runs"]
    assert not {"reached", "best", "energy", "price"} & columns(found[-1]).keys()


def test_a_failed_run_and_a_rule_violation_are_marked() -> None:
    # One run has no tables of groups.
    phases, alone = tables(results.make_comparison([results.make_result(1)]))
    assert (phases.title, alone.title) == ("Time breakdown", "Runs")
    assert "outcome" not in columns(alone)
    failed = replace(results.make_result(2), state="FAILED", rule_violations=("its target is 90",))
    both = columns(tables(results.make_comparison([results.make_result(1), failed]))[-1])
    assert both["outcome"] == ["FINISHED", "FAILED"]
    assert both["division"] == ["closed", "closed*"]


def test_custom_phases_follow_the_known_ones() -> None:
    own = replace(results.make_result(1), phases={"zeta": 1.0, "other": 2.0, "forward": 3.0})
    phases = tables(results.make_comparison([own]))[0]
    assert [*columns(phases)] == ["group", "forward", "other", "zeta", "sum"]


def test_a_sweep_has_a_table_of_its_groups() -> None:
    by_title = {table.title: table for table in tables(results.make_sweep((1, 2), 4))}
    sweep = columns(by_title["Sweep"])
    rows = [*zip(sweep["exchange"], sweep["bandwidth"], sweep["workers"], strict=True)]
    assert rows[1:4] == [("flat", "5", "2"), ("flat", "20", "1"), ("flat", "20", "2")]
    assert sweep["as fast as"][:3] == ["-", "1 worker", "bandwidth 5"]
    assert sweep["times"][:3] == ["-", "1.74", "2.50"]
    assert {"exchange", "bandwidth"} <= columns(by_title["Runs"]).keys()
    assert columns(by_title["Time breakdown"])["exchange"] == sweep["exchange"]
