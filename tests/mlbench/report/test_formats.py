"""Comparisons as CSV, Markdown and LaTeX."""

import csv
import dataclasses
import io
from dataclasses import replace

from mlbench.contract.comparisons import Comparison
from mlbench.contract.results import Straggler, Stragglers
from mlbench.report.formats import latex_table, to_csv, to_latex, to_markdown
from mlbench.report.statement import Attribute
from mlbench.report.tables import Column, ReportTable
from tests.support import results
from tests.support.known import known

# --- CSV ---


def rows_of(comparison: Comparison) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(to_csv(comparison))))


def test_there_is_a_row_for_each_run_in_base_units() -> None:
    comparison = results.make_matrix((1, 2), 2)
    rows = rows_of(comparison)
    assert [row["run_id"] for row in rows] == ["1", "2", "3", "4"]
    assert [row["group"] for row in rows] == ["1 worker", "2 workers"] * 2
    reached = known(comparison.results[1].time_to_target)
    assert float(rows[1]["time_to_target_training_seconds"]) == reached.training_seconds
    assert float(rows[1]["time_to_target_wall_seconds"]) == reached.wall_seconds
    assert float(rows[1]["phases_forward"]) == comparison.results[1].phases["forward"]
    assert rows[1]["target_metric"] == "val_global_Prec@1"
    assert "curve" not in rows[1]


def test_every_row_has_the_figures_of_its_group() -> None:
    comparison = results.make_matrix((1, 2), 3)
    rows = rows_of(comparison)
    first, second = comparison.groups
    for row, group in zip(rows, [first, second] * 3, strict=True):
        assert int(row["group_reached"]) == group.reached == 3
        assert float(row["group_speedup"]) == group.speedup
        assert float(row["group_efficiency"]) == group.efficiency
    summary = dataclasses.asdict(known(second.training_seconds_to_target))
    for name, value in summary.items():
        assert float(rows[1][f"group_training_seconds_to_target_{name}"]) == value
    [aimless] = rows_of(results.make_comparison([results.make_aimless(1)]))
    assert aimless["group_training_seconds_to_target_mean"] == ""


def test_missing_figures_are_empty_and_every_run_has_every_column() -> None:
    other = replace(results.make_result(2, 2), phases={"zeta": 1.0})
    first, second = rows_of(results.make_comparison([results.make_aimless(1), other]))
    assert first.keys() == second.keys()
    assert first["target_metric"] == first["time_to_target_wall_seconds"] == ""
    assert (first["phases_zeta"], second["phases_zeta"]) == ("", "1.0")
    assert (first["cost_worker_seconds"] != "", first["energy_joules"]) == (True, "")


def test_how_late_each_rank_was_is_no_single_figure() -> None:
    late = Stragglers(1.25, (Straggler(1, 2.0, {"compute": 2.0}, 1.2),), "rank 1 was late")
    [row] = rows_of(results.make_comparison([replace(results.make_result(1, 2), stragglers=late)]))
    assert (row["stragglers_speedup_without"], row["stragglers_text"]) == (
        "1.25",
        "rank 1 was late",
    )


# --- Markdown ---


def test_a_report_begins_with_what_can_be_compared_and_ends_with_the_machines() -> None:
    differences = (results.make_difference("cpu", "no", "cpu is a for run 1 and b for run 2"),)
    crashed = "set scaling: 2 of 2 slots have a run that counts; 3 runs; 1 crashed"
    comparison = replace(results.make_matrix((1, 2), 1), differences=differences, sets=(crashed,))
    text = to_markdown(results.judged(comparison), (Attribute("rank 0", "a CPU; 2 cores"),))
    lines = text.splitlines()
    assert lines[0] == "# digits on 1, 2 workers"
    assert lines[2] == "2 runs, target: val_global_Prec@1 ≥ 97"
    assert lines[4].startswith("**These runs can be compared: the same data, target and batch size")
    assert lines[6] == f"- {crashed}"
    assert lines[8:11] == ["What else differs:", "", "- cpu is a for run 1 and b for run 2"]
    assert text.endswith("## Run 1 ran on\n\n- rank 0: a CPU; 2 cores\n")


def test_nothing_of_the_users_is_markdown() -> None:
    violation = "its <b> is `a|b` *c* [d](e)\n# f _g_ snake_case"
    result = replace(results.make_result(1), rule_violations=(violation,), disturbed=(violation,))
    line = r"- run 1: its \<b\> is \`a\|b\` \*c\* \[d\](e) \# f \_g\_ snake_case"
    assert to_markdown(results.make_comparison([result])).splitlines().count(line) == 2


# --- LaTeX ---


def test_a_table_has_a_caption_rules_and_aligned_columns() -> None:
    columns = (Column("group", is_figure=False), Column("speed-up", "\N{MULTIPLICATION SIGN}"))
    table = ReportTable("Time to target", "At 50 %.", columns, (("1 worker", "1.00"),))
    assert latex_table(table).splitlines() == [
        r"\begin{table}",
        r"  \centering",
        r"  \caption{Time to target. At 50 \%.}",
        r"  \begin{tabular}{lr}",
        r"    \toprule",
        r"    group & speed-up ($\times$) \\",
        r"    \midrule",
        r"    1 worker & 1.00 \\",
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]


def test_every_table_of_a_comparison_is_in_latex_and_no_text_is_a_command() -> None:
    matrix = results.make_matrix((1, 2), 2)
    first = replace(matrix.results[0], name=r"\input{x} ~a^b_c & 1 % $2 #3")
    text = to_latex(replace(matrix, results=(first, *matrix.results[1:])))
    assert text.count(r"\begin{tabular}") == text.count(r"\end{table}") == 4
    escaped = r"\textbackslash{}input\{x\} \textasciitilde{}a\textasciicircum{}b\_c \& 1 \% \$2 \#3"
    assert escaped in text
