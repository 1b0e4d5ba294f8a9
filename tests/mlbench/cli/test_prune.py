"""``mlbench prune``: old runs are deleted, and no others."""

import sqlite3
import time
from contextlib import closing

import pytest

from mlbench import ApiClient
from mlbench.contract.records import Annotations, Run
from mlbench.local.home import Home
from tests.conftest import wait_for
from tests.mlbench.cli.conftest import Mlbench
from tests.support.known import known
from tests.support.stacks import order_steps, reload, run_to_end


def test_runs_that_ended_long_ago_are_deleted(
    mlbench: Mlbench, client: ApiClient, stack: Home, finished: Run
) -> None:
    old = run_to_end(client, order_steps(client, "long-ago", steps=10))
    with closing(sqlite3.connect(stack.database, timeout=30)) as database, database:
        ended = time.time() - 91 * 86_400
        database.execute("UPDATE run SET finished_at = ? WHERE id = ?", (ended, old.id))
    assert mlbench("prune", "--older-than", "92d", "--json").json == {"deleted": []}
    refused = mlbench("prune", "--older-than", "90d").refusal
    assert f"run {old.id} (long-ago) of 20" in refused, "what it would delete comes first"
    assert "--yes: required" in refused
    assert mlbench("edit", "long-ago", "--tag", "pinned").code == 0
    assert mlbench("prune", "--older-than", "90d", "--yes").output == "0 runs deleted\n"
    assert mlbench("edit", "long-ago", "--untag", "pinned").code == 0
    query = ("--query", f"user={old.user} long-ago")
    shown = mlbench("prune", "--older-than", "90d", "--dry-run", *query).output
    assert shown.splitlines()[-1] == "1 run would be deleted"
    others = ("--query", "user=nobody-else", "--dry-run", "--json")
    assert mlbench("prune", "--older-than", "90d", *others).json == {"would_delete": []}
    printed = mlbench("prune", "--older-than", "90d", "--yes").output
    assert printed == "1 run deleted\n"
    ids = {run.id for run in client.get_runs().result().value}
    assert old.id not in ids
    assert finished.id in ids


def test_the_words_of_a_run_are_kept_beside_its_archive(
    mlbench: Mlbench, client: ApiClient, stack: Home
) -> None:
    run = run_to_end(client, order_steps(client, "said-of", steps=10))
    wait_for(lambda: reload(client, run).archive is not None, what="it is sealed")
    words = ("--title", "Løss", "--tag", "paper", "--note", "*N*")
    assert mlbench("edit", "said-of", *words).code == 0
    archive = stack.archive / known(reload(client, run).archive)
    client.delete_run(run.id, keep_archive=True).result()
    assert mlbench("import", str(archive)).code == 0
    again = client.get_runs().result().value[-1]
    assert again.annotations == Annotations("Løss", ("paper",), "*N*")
    assert mlbench("delete", "--yes", str(again.id)).code == 0
    archive.unlink()


def test_delete_asks_and_an_answer_of_no_deletes_nothing(mlbench: Mlbench, finished: Run) -> None:
    with mlbench.on_terminal("delete", "finished") as terminal:
        terminal.type("n")
        assert terminal.wait() == 1
    assert f"Delete run {finished.id} (finished), with their series and archives?" in terminal.text
    assert mlbench("status", "finished").code == 0


@pytest.mark.parametrize("age", ["90", "1.5d", "d", "90 days", "-1d"])
def test_an_age_is_days_or_weeks(mlbench: Mlbench, age: str) -> None:
    refused = mlbench("prune", f"--older-than={age}", "--yes").refusal
    assert f"e.g. 90d or 12w (got {age!r})" in refused
