"""``mlbench status``, ``benchmarks``, ``logs``, ``metrics``, ``manifest`` and ``open``."""

import re
import stat
from dataclasses import replace
from itertools import product
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from mlbench import ApiClient
from mlbench.client import transport
from mlbench.contract import names
from mlbench.contract.records import Run
from mlbench.local.home import Home, StackConnection
from tests.conftest import free_port
from tests.mlbench.cli.conftest import Mlbench
from tests.support.stacks import order_command, order_steps, run_to_end

_DATE = "2018-08-03T09:21:29.347000Z"


def test_the_benchmarks_are_listed(mlbench: Mlbench, client: ApiClient) -> None:
    listed = mlbench("benchmarks", "--json").json
    assert listed == client.get_benchmarks().result().json()
    printed = mlbench("benchmarks").output
    assert re.search(r"^digits +A small ResNet on scikit-learn's", printed, re.MULTILINE)
    assert all(benchmark["name"] in printed for benchmark in listed)
    options = mlbench("benchmarks", "digits").out
    assert re.search(r"--set exchange= .*ddp or flat or per-layer", options)


def test_runs_are_listed_by_a_query(mlbench: Mlbench, finished: Run) -> None:
    query = f"id={finished.id} workers>=2 name=finished"
    [run] = mlbench("runs", "-q", query, "--columns", "state,steps", "--json").json
    assert run["values"] == {"state": "FINISHED", "steps": 200}
    done = mlbench("runs", "-q", query, "--order=-created", "--columns", "state")
    assert re.fullmatch(rf"id +name +state *\n{finished.id} +finished +FINISHED *\n", done.out)
    grouped = mlbench("runs", "-q", query, "--group", "name", "--columns", "state,steps,workers")
    assert re.fullmatch(r"name +runs +steps +workers *\nfinished +1 +200 +2 *\n", grouped.out)
    [group] = mlbench("runs", "-q", query, "--group", "state,name", "--json").json
    assert group["values"] == {"state": "FINISHED", "name": "finished"}
    refused = mlbench("runs", "-q", "wrkers>2").refusal
    assert "unknown field wrkers. Did you mean workers?" in refused


def test_a_note_names_groups_with_several_versions_of_the_code(
    mlbench: Mlbench, client: ApiClient, tmp_path: Path
) -> None:
    query, notes = "name=mixed", []
    for version in "ab":
        (tmp_path / "train.sh").write_text(f"echo {version}\n")
        run_to_end(client, order_command(client, "mixed", "sh train.sh", working_dir=str(tmp_path)))
        grouped = mlbench("runs", "-q", query, "--group", "name", "--columns", "")
        notes.append(grouped.out.splitlines()[2:])
    versions = "Runs of one group have up to 2 versions of their code."
    assert notes == [[], [f"{versions} To separate them, add code,commit to --group."]]


def test_a_user_lists_their_own_runs(
    mlbench: Mlbench, client: ApiClient, stack: Home, finished: Run
) -> None:
    url = stack.read_connection().url
    token = mlbench("token", "create", "ada", "--role", "run").output.strip()
    with ApiClient(url=url, token=token) as of_ada:
        run = order_steps(of_ada, "of-ada", steps=10, rate=100)
    run_to_end(client, run)
    ada = replace(mlbench, more={names.ENV_URL: url, names.ENV_TOKEN: token})
    query = ("-q", f"of-ada OR id={finished.id}", "--columns", "user", "--json")
    assert [row["name"] for row in mlbench("runs", *query).json] == ["finished", "of-ada"]
    assert [row["name"] for row in ada("runs", "--mine", *query).json] == ["of-ada"]
    assert [row["name"] for row in mlbench("runs", "--mine", *query).json] == ["finished"]


def test_a_log_is_printed_verbatim(mlbench: Mlbench, client: ApiClient, finished: Run) -> None:
    done = mlbench("logs", "finished", "--rank", "1")
    assert (done.code, len(done.out.splitlines())) == (0, 2)
    assert done.out == client.get_logs(finished.id, rank=1).result().value.text
    for arguments, message in (
        (("--rank", "2"), "mlbench: --rank: run"),
        (("--attempt", "2"), "mlbench: --attempt: run"),
        (("--stream", "metrics"), "Invalid value for '--stream'"),
    ):
        assert message in mlbench("logs", "finished", *arguments).refusal


def test_a_log_is_followed_until_the_run_ends(mlbench: Mlbench, client: ApiClient) -> None:
    run = order_steps(client, "followed", steps=60_000, rate=1000)
    with mlbench.on_terminal("logs", "followed", "--follow") as terminal:
        terminal.read_until("^step 100 of 60000: .*\n")
        client.stop_run(run.id).result()
        assert terminal.wait() == 0
    assert not client.get_run(run.id).result().value.active
    whole = client.get_logs(run.id).result().value.text
    assert terminal.raw.replace("\r\n", "\n") == whole


def test_control_characters_are_escaped_on_a_terminal(mlbench: Mlbench, client: ApiClient) -> None:
    command = r"printf '\033]0;title\007\033[2J\tcol\342\200\256\n'"
    run = run_to_end(client, order_command(client, "escapes", command))
    assert run.state == "FINISHED", run.reason
    output = "\033]0;title\007\033[2J\tcol\u202e\n"
    assert mlbench("logs", "escapes").out == output
    shown = "\\x1b]0;title\\x07\\x1b[2J\tcol\\u202e\r\n"
    for arguments, expected in (((), shown), (("--raw",), output.replace("\n", "\r\n"))):
        with mlbench.on_terminal("logs", "escapes", *arguments) as terminal:
            assert terminal.wait() == 0
        assert terminal.raw == expected


def test_metrics_shows_an_overview_or_all_values_of_a_metric(
    mlbench: Mlbench, client: ApiClient, finished: Run
) -> None:
    name = "a_name_of_a_layer." * 6 + "[/bold] :100: [weight]"
    client.post_metric(finished.id, name, "[/] text :smile:", date=_DATE).result()
    overview = mlbench("metrics", "finished").output
    heading, *lines = overview.splitlines()
    assert heading.split() == ["metric", "values", "first", "last"]
    assert len(lines) == len(client.get_run_metrics(finished.id).result().value)
    assert re.search(r"^train_loss @ 0 +200 +0\.990099 +0\.333333$", overview, re.MULTILINE)
    # Names and texts are printed verbatim.
    assert re.search(rf"^{re.escape(name)} +1 ", overview, re.MULTILINE)
    values = mlbench("metrics", "finished", "--metric", name).output
    first, value = values.splitlines()
    assert first.split() == ["series", "date", "step", "value"]
    assert value == f"{name}  {_DATE}  {'-':>8}  [/] text :smile:"
    tail = mlbench("metrics", "finished", "--metric", "train_loss", "--tail", "2").output
    rows = [line.split() for line in tail.splitlines()[1:]]
    assert [(row[2], row[4]) for row in rows] == [*product("01", ("199", "200"))]
    assert mlbench("metrics", "finished", "--tail", "2").refusal.startswith("mlbench: --tail: ")
    unknown = f"run {finished.id} has no metric 'nothing'. `mlbench metrics {finished.id}` lists"
    assert unknown in mlbench("metrics", "finished", "--metric", "nothing").refusal
    metrics = mlbench("metrics", "finished", "--json").json
    assert metrics == client.get_run_metrics(finished.id).result().json()
    only = mlbench("metrics", "finished", "--metric", "epoch", "--json").json
    assert only == {name: points for name, points in metrics.items() if name.startswith("epoch")}


def test_the_manifest_describes_the_run_and_its_machines(
    mlbench: Mlbench, client: ApiClient, finished: Run
) -> None:
    """``test_manifest.py`` tests all of its lines."""
    printed = mlbench("manifest", "finished").output
    assert re.search(r"^ranks 0, 1 .* cores?; .* Python 3\.", printed, re.MULTILINE)
    said = client.get_manifest(finished.id).result().json()
    assert mlbench("manifest", "finished", "--json").json == said


# --- status, and lookup of RUN ---


def test_the_status_lists_runs_and_workers(mlbench: Mlbench, finished: Run) -> None:
    done = mlbench("status")
    assert done.code == 0
    created = finished.created_at[:19].replace("T", " ")
    row = rf"^{finished.id} +finished +steps +2 +completed +{created}"
    assert re.search(row, done.out, re.MULTILINE)
    assert re.search(r"^local-mlbench-worker-1 +Running +- +-", done.out, re.MULTILINE)
    assert "\ndatabase  SQLite\n" in done.out


def test_a_crash_is_not_called_a_hang(mlbench: Mlbench, client: ApiClient) -> None:
    # Rank 0 crashes while rank 1 is running, so the ranks are diagnosed.
    command = "sh -c 'test $MLBENCH_RANK = 0 || sleep 60; exit 3'"
    run = order_command(client, "crashed", command, num_workers=2)
    run_to_end(client, run)
    assert client.get_diagnosis(run.id).result().value.verdict.kind == "exited"
    assert "exited with code 3" in (output := mlbench("status", str(run.id)).out)
    assert "Hang diagnosis" not in output


def test_a_shared_name_means_the_newest_run_and_an_unknown_one_is_refused(
    mlbench: Mlbench, client: ApiClient, finished: Run
) -> None:
    newest = run_to_end(client, order_steps(client, "finished", steps=1))
    assert mlbench("status", "finished", "--json").json["id"] == newest.id
    message = "mlbench: run or set 'nobody' not found. `mlbench status` lists runs.\n"
    assert mlbench("stop", "nobody").refusal == message


# --- open: the browser is signed in, and no command line contains the token ---


@pytest.fixture
def browser(tmp_path: Path) -> Path:
    """A program that replaces the browser and records its arguments."""
    program = tmp_path / "browser"
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path / "called"}\n')
    program.chmod(0o755)
    return program


def open_with(mlbench: Mlbench, browser: Path) -> tuple[str, str]:
    """Return the output of ``open``, and the address to which the browser's page redirects."""
    more = {**mlbench.more, "BROWSER": f"{browser} %s"}
    printed = replace(mlbench, more=more).process("open").output
    called = browser.with_name("called").read_text()
    assert "token" not in called, "everyone can read the command line of a process"
    page = Path(urlsplit(called.strip()).path)
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    [url] = re.findall(r'content="0;url=([^"]+)"', page.read_text())
    return printed, url


def test_the_browser_opens_signed_in_pages(mlbench: Mlbench, alone: Mlbench, browser: Path) -> None:
    connection = mlbench.home.read_connection()
    signed_in = f"{connection.url}/?token={connection.token}"
    assert open_with(mlbench, browser) == (f"{signed_in}\n", signed_in)
    answer = httpx.get(signed_in)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/")
    assert "mlbench-session-" in answer.headers["Set-Cookie"]
    # The token of a remote master is not shown.
    there = {"MLBENCH_URL": connection.url, "MLBENCH_TOKEN": connection.token}
    elsewhere = replace(alone, more=there)
    assert open_with(elsewhere, browser) == (f"{connection.url}/\n", signed_in)


def test_a_missing_master_is_not_opened(alone: Mlbench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_PAUSES_SECONDS", ())
    alone.home.make()
    dead = StackConnection(f"http://127.0.0.1:{free_port()}", "token", None)
    alone.home.write_connection(dead)
    assert f"the master at {dead.url} does not respond" in alone("open").refusal


def test_without_a_browser_the_address_is_printed(mlbench: Mlbench, tmp_path: Path) -> None:
    none = {"BROWSER": str(tmp_path / "none"), "PATH": str(tmp_path), "DISPLAY": ""}
    done = replace(mlbench, more=none).process("open")
    assert done.code == 0
    assert done.out.startswith("http://127.0.0.1:")
    assert done.err == "No browser found. Open this address in your browser.\n"
