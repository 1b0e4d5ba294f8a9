"""Comparisons as CSV, Markdown and HTML, which a real browser shows."""

import csv
import dataclasses
import io
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from mlbench.contract.comparisons import Comparison
from mlbench.contract.results import Straggler, Stragglers
from mlbench.report.formats import to_csv, to_html, to_markdown
from mlbench.report.statement import Attribute
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


# --- HTML ---

_VOID = {"meta", "br", "hr", "img", "input", "link"}


class _Reader(HTMLParser):
    """Notes which elements are open, what would be loaded, and the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.loaded: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        loading = ("src", "href", "xlink:href", "srcset")
        self.loaded += [v for name, v in attrs if name in loading and v and v[0] != "#"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(page: str) -> _Reader:
    """Read a page that is whole and loads nothing."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert page.startswith("<!doctype html>")
    assert page.rstrip().endswith("</html>")
    assert reader.open == reader.loaded == []
    assert not {"script", "link", "img", "iframe", "object"} & reader.seen
    assert not re.search(r"@import|url\((?!#)", page)
    return reader


@pytest.mark.parametrize(
    "comparison",
    [
        results.make_comparison([results.make_unreached(1), results.make_unreached(2, 2)]),
        results.make_comparison([results.make_aimless(1)]),
    ],
)
def test_a_page_is_whole_whatever_was_not_reached(comparison: Comparison) -> None:
    read(to_html(comparison))


def test_a_page_has_the_statement_the_figures_and_the_machines() -> None:
    comparison = replace(
        results.make_matrix((1, 2), 1),
        comparable="no",
        differences=(results.make_difference("batch_size", "yes", "batch_size is 32 and 64"),),
    )
    page = to_html(results.judged(comparison), (Attribute("rank 0", "AMD EPYC; 2 cores"),))
    text = read(page).text
    parts = (
        "cannot be compared",
        "batch_size is 32 and 64",
        "over training time",
        "What run 1 ran",
    )
    assert [*map(text.index, parts)] == sorted(map(text.index, parts))
    assert "<dt>rank 0</dt><dd>AMD EPYC; 2 cores</dd>" in page
    assert '<td class="figure">4.26</td>' in page
    assert "<td>2 workers</td>" in page


def test_nothing_of_the_users_is_markup() -> None:
    evil = '<script>alert("x")</script>'
    result = results.make_result(1)
    target = replace(known(result.target), metric=evil)
    result = replace(result, name=evil, benchmark=evil, rule_violations=(evil,), target=target)
    result = replace(result, disturbed=(evil,))
    result = replace(result, phases={evil: 1.0})
    comparison = results.make_comparison([result, replace(result, run_id=2)])
    comparison = replace(
        comparison,
        groups=tuple(replace(group, label=evil) for group in comparison.groups),
        differences=(results.make_difference(evil, "no", evil),),
    )
    assert evil in read(to_html(results.judged(comparison), (Attribute(evil, evil),))).text
