"""Comparisons as CSV."""

import csv
import dataclasses
import io
from dataclasses import replace

from mlbench.report.csv import render
from mlbench.results import Comparison
from tests.mlbench.report.making import (
    make_aimless,
    make_comparison,
    make_matrix,
    make_result,
)


def rows_of(comparison: Comparison) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(render(comparison))))


def test_there_is_a_row_for_each_run_in_base_units() -> None:
    comparison = make_matrix((1, 2), 2)
    rows = rows_of(comparison)
    assert [row["run_id"] for row in rows] == ["1", "2", "3", "4"]
    assert [row["group"] for row in rows] == ["1 worker", "2 workers"] * 2
    reached = comparison.results[1].time_to_accuracy
    assert reached is not None
    assert float(rows[1]["time_to_accuracy_training_seconds"]) == reached.training_seconds
    assert float(rows[1]["time_to_accuracy_wall_seconds"]) == reached.wall_seconds
    assert float(rows[1]["phases_forward"]) == comparison.results[1].phases["forward"]
    assert rows[1]["target_metric"] == "val_global_Prec@1"
    assert "curve" not in rows[1]


def test_every_row_has_the_figures_of_its_group() -> None:
    comparison = make_matrix((1, 2), 3)
    rows = rows_of(comparison)
    one, two = comparison.groups
    assert two.training_seconds_to_accuracy is not None
    for row, group in zip(rows, [one, two] * 3, strict=True):
        assert int(row["group_reached"]) == group.reached == 3
        assert float(row["group_speedup"]) == group.speedup
        assert float(row["group_efficiency"]) == group.efficiency
    summary = dataclasses.asdict(two.training_seconds_to_accuracy)
    for name, value in summary.items():
        assert float(rows[1][f"group_training_seconds_to_accuracy_{name}"]) == value
    [aimless] = rows_of(make_comparison([make_aimless(1)]))
    assert aimless["group_training_seconds_to_accuracy_mean"] == ""


def test_what_there_is_none_of_is_empty_and_every_run_has_every_column() -> None:
    other = replace(make_result(2, 2), phases={"zeta": 1.0})
    first, second = rows_of(make_comparison([make_aimless(1), other]))
    assert first.keys() == second.keys()
    assert first["target_metric"] == first["time_to_accuracy_wall_seconds"] == ""
    assert (first["phases_zeta"], second["phases_zeta"]) == ("", "1.0")
    assert (first["cost_worker_seconds"] != "", first["energy_joules"]) == (True, "")


def test_texts_come_back_as_they_are() -> None:
    departures = ('the "rules", say 90', "line\nbreak")
    [row] = rows_of(make_comparison([replace(make_result(1), departures=departures)]))
    assert row["departures"] == "; ".join(departures)
