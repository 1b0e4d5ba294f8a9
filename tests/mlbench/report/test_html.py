"""The HTML page: whole, self-contained, escaped; and a real browser shows it."""

import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from mlbench.report.html import render
from mlbench.report.manifest import Fact
from mlbench.results import Comparison
from tests.mlbench.report.making import (
    make_aimless,
    make_comparison,
    make_difference,
    make_matrix,
    make_result,
    make_unreached,
)

_VOID = {"meta", "br", "hr", "img", "input", "link"}


class _Reader(HTMLParser):
    """Notes which elements are open, and what would be loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.loaded: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        values = dict(attrs)
        self.loaded += [
            value
            for name, value in values.items()
            if name in ("src", "href", "xlink:href", "srcset") and value and value[0] != "#"
        ]
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(page: str) -> _Reader:
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


@pytest.mark.parametrize(
    "comparison",
    [
        make_matrix(),
        make_comparison([make_result(1)]),
        make_comparison([make_unreached(1), make_unreached(2, 2)]),
        make_comparison([make_aimless(1)]),
    ],
)
def test_a_page_is_whole_and_loads_nothing(comparison: Comparison) -> None:
    page = render(comparison)
    reader = read(page)
    assert page.startswith("<!doctype html>")
    assert page.rstrip().endswith("</html>")
    assert reader.loaded == []
    assert not {"script", "link", "img", "iframe", "object"} & {*reader.seen}
    assert not re.search(r"@import|url\((?!#)", page)


def test_the_statement_comes_before_the_figures() -> None:
    comparison = replace(
        make_matrix((1, 2), 1),
        comparable="no",
        differences=(make_difference("batch_size", "yes", "batch_size is 32 and 64"),),
    )
    text = read(render(comparison)).text
    assert text.index("cannot be compared") < text.index("batch_size is 32 and 64")
    assert text.index("batch_size is 32 and 64") < text.index("over training time")


def test_runs_that_did_not_finish_are_told() -> None:
    assert "≥ 97; left out: 1 that did not finish" in read(render(make_matrix(), left_out=1)).text


def test_facts_about_the_machines_are_shown() -> None:
    page = render(make_matrix((1,), 2), (Fact("rank 0", "AMD EPYC; 2 cores"),))
    assert "<dt>rank 0</dt><dd>AMD EPYC; 2 cores</dd>" in page
    assert "What run 1 ran" in page


def test_figures_stand_at_the_right() -> None:
    page = render(make_matrix((1, 2), 1))
    assert '<td class="figure">4.26</td>' in page
    assert "<td>2 workers</td>" in page


def test_nothing_of_the_users_is_markup() -> None:
    evil = '<script>alert("x")</script>'
    result = make_result(1)
    assert result.target is not None
    result = replace(
        result,
        name=evil,
        benchmark=evil,
        departures=(evil,),
        target=replace(result.target, metric=evil),
        phases={evil: 1.0},
    )
    comparison = make_comparison([result, replace(result, run_id=2)])
    comparison = replace(
        comparison,
        groups=tuple(replace(group, label=evil) for group in comparison.groups),
        differences=(make_difference(evil, "no", evil),),
    )
    reader = read(render(comparison, (Fact(evil, evil),)))
    assert "script" not in reader.seen
    assert evil in reader.text


def test_a_browser_shows_it(tmp_path: Path) -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no chromium")
    page = tmp_path / "report.html"
    page.write_text(render(make_matrix()))
    done = subprocess.run(
        [
            chromium,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            f"--user-data-dir={tmp_path / 'browser'}",
            "--window-size=390,844",
            "--dump-dom",
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("<svg") == 4
    assert "digits on 1, 2, 4 workers" in done.stdout
