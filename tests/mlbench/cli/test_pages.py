"""``mlbench open``: the browser is signed in, and no command line shows the token."""

import re
import stat
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from mlbench.client import Run
from tests.mlbench.cli.conftest import Mlbench


@pytest.fixture
def browser(tmp_path: Path) -> Path:
    """A program that stands in for a browser, and notes what it is called with."""
    program = tmp_path / "browser"
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path / "called"}\n')
    program.chmod(0o755)
    return program


def with_browser(mlbench: Mlbench, browser: str | Path) -> Mlbench:
    return replace(mlbench, more={**mlbench.more, "BROWSER": f"{browser} %s"})


def follow(called: str) -> str:
    """Return where the page that a browser was called with leads to."""
    page = Path(urlsplit(called.strip()).path).read_text()
    [url] = re.findall(r'content="0;url=([^"]+)"', page)
    return str(url)


def test_the_browser_is_led_to_the_pages_and_signed_in(mlbench: Mlbench, browser: Path) -> None:
    done = with_browser(mlbench, browser)("open")
    connection = mlbench.home.read_connection()
    assert (done.code, done.err) == (0, "")
    assert done.out == f"{connection.url}/?token={connection.token}\n"
    called = browser.with_name("called").read_text()
    assert connection.token not in called
    assert stat.S_IMODE(mlbench.home.sign_in_page.stat().st_mode) == 0o600
    answer = httpx.get(follow(called))
    assert (answer.status_code, answer.headers["Location"]) == (303, "/")
    assert "mlbench-session-" in answer.headers["Set-Cookie"]


def test_a_run_is_opened_by_name(mlbench: Mlbench, browser: Path, finished: Run) -> None:
    done = with_browser(mlbench, browser)("open", "finished", "--json")
    assert done.json["opened"]
    assert f"/runs/{finished.id}?token=" in done.json["web_url"]
    assert follow(browser.with_name("called").read_text()) == done.json["web_url"]


def test_an_unknown_run_opens_nothing(mlbench: Mlbench, browser: Path) -> None:
    done = with_browser(mlbench, browser)("open", "nobody")
    assert (done.code, done.out) == (2, "")
    assert not browser.with_name("called").exists()


def test_without_a_browser_the_address_is_there(mlbench: Mlbench, tmp_path: Path) -> None:
    alone = replace(
        mlbench, more={"BROWSER": str(tmp_path / "none"), "PATH": str(tmp_path), "DISPLAY": ""}
    )
    done = alone("open")
    assert done.code == 0
    assert done.out.startswith("http://127.0.0.1:")
    assert done.err == "there is no browser here: open this address in yours\n"


def test_of_a_master_elsewhere_the_token_is_not_shown(
    alone: Mlbench, mlbench: Mlbench, browser: Path
) -> None:
    connection = mlbench.home.read_connection()
    there = {"MLBENCH_URL": connection.url, "MLBENCH_TOKEN": connection.token}
    done = with_browser(replace(alone, more=there), browser)("open")
    assert (done.code, done.out) == (0, f"{connection.url}/\n")
    called = browser.with_name("called").read_text()
    assert follow(called) == f"{connection.url}/?token={connection.token}"
