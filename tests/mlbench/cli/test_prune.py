"""``mlbench prune`` deletes old runs and no others."""

import re
import shlex
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from mlbench import ApiClient
from mlbench.cli.prune import deletable
from mlbench.contract.humanize import byte_size
from mlbench.contract.records import Annotations, Run
from mlbench.local.home import Home
from tests.conftest import wait_for
from tests.mlbench.cli.conftest import Mlbench
from tests.support.known import known
from tests.support.stacks import order_command, order_steps, reload, run_to_end


def test_old_runs_are_deleted(
    mlbench: Mlbench, client: ApiClient, stack: Home, finished: Run
) -> None:
    old = run_to_end(client, order_steps(client, "long-ago", steps=10))
    end_days_ago(stack, {old.id: 91})
    assert mlbench("prune", "--older-than", "92d", "--json").json == {"deleted": []}
    refused = mlbench("prune", "--older-than", "90d").refusal
    assert f"run {old.id} (long-ago) of 20" in refused, "the runs to delete must be listed first"
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
    assert (old.id in ids, finished.id in ids) == (False, True)


def end_days_ago(stack: Home, days: dict[int, int]) -> None:
    """Change the end of runs to a number of days ago, by run ID."""
    with closing(sqlite3.connect(stack.database, timeout=30)) as database, database:
        for run_id, ago in days.items():
            ended = time.time() - ago * 86_400
            database.execute("UPDATE run SET finished_at = ? WHERE id = ?", (ended, run_id))


def test_the_oldest_runs_are_deleted_until_the_rest_fits(
    mlbench: Mlbench, client: ApiClient, stack: Home
) -> None:
    """Four runs have the same tag, and the oldest one is pinned."""
    runs, command = [], "sh -c 'yes | head -c 100000'"
    for i in range(4):
        runs.append(run_to_end(client, order_command(client, f"sized-{i}", command)))
        client.edit_run(runs[i].id, add_tags=["sized"]).result()
    client.edit_run(runs[0].id, add_tags=["pinned"]).result()
    end_days_ago(stack, {run.id: 40 - 10 * i for i, run in enumerate(runs)})
    ids = [run.id for run in runs]

    def sizes() -> dict[int, float]:
        listed = client.get_runs(query="tag:sized", columns=["size"]).result().value
        return {run.id: float(str(run.values["size"])) for run in listed}

    def is_measured() -> bool:
        archives = {run.id: reload(client, run).archive for run in runs}
        if not all(archives.values()):
            return False
        files = {run_id: stack.archive / known(name) for run_id, name in archives.items()}
        return sizes() == {run_id: 100_000 + file.stat().st_size for run_id, file in files.items()}

    wait_for(is_measured, what="logs and archives are counted")
    total, policy = sum(sizes().values()), ("prune", "--query", "tag:sized", "--keep-bytes")
    assert mlbench(*policy, str(int(total)), "--yes", "--json").json == {"deleted": []}
    over = str(int(total) - 1)
    ended = datetime.fromtimestamp(time.time() - 30 * 86_400, UTC)
    oldest = f"run {ids[1]} (sized-1) of {ended:%Y-%m-%d}, {byte_size(sizes()[ids[1]])}"
    shown = mlbench(*policy, over, "--dry-run").output
    assert shown.splitlines() == [oldest, "1 run would be deleted"]
    # --older-than also applies: only one unpinned run ended at least 25 days ago.
    young = mlbench(*policy, "0", "--older-than", "25d", "--dry-run", "--json")
    assert young.json == {"would_delete": [ids[1]]}
    assert "--keep-bytes: the other runs take 3" in young.err
    assert mlbench(*policy, over, "--yes").output == "1 run deleted\n"
    everything = mlbench(*policy, "0B", "--yes", "--json")
    assert everything.json == {"deleted": ids[2:]}
    assert "pinned" in everything.err
    assert list(sizes()) == [ids[0]]
    assert reload(client, runs[0]).archive
    assert mlbench("delete", "--yes", str(ids[0])).code == 0


def test_a_set_is_deleted_as_a_whole(mlbench: Mlbench, client: ApiClient, stack: Home) -> None:
    words = ("steps", "--workers", "1", "--repeats", "2", "--set", "steps=10", "--set", "rate=1000")
    assert mlbench("bench", *words, "--name", "pair").code == 0
    first, second = [run.id for run in client.get_runs(query="set=pair").result().value]
    end_days_ago(stack, {first: 60, second: 20})
    policy = ("prune", "--query", "set=pair", "--yes", "--json")
    nothing: dict[str, list[int]] = {"deleted": []}
    assert mlbench(*policy, "--older-than", "50d").json == nothing
    one = (*policy[:2], f"id={first}", *policy[3:])
    assert mlbench(*one, "--older-than", "1d").json == nothing
    client.edit_run(second, add_tags=["pinned"]).result()
    assert mlbench(*policy, "--keep-bytes", "0").json == nothing
    client.edit_run(second, remove_tags=["pinned"]).result()
    # A set is active between two of its runs, although none of its runs is.
    run_set, now = client.get_set("pair").result().value, datetime.now(UTC)
    runs = client.get_runs(query="set=pair").result().value
    assert deletable(runs, [replace(run_set, state="running")], now) == []
    assert deletable(runs, [run_set], now) == [runs]
    assert mlbench(*policy, "--keep-bytes", "1").json == {"deleted": [first, second]}


def test_the_policies_of_the_documentation_are_valid(mlbench: Mlbench, finished: Run) -> None:
    """Run the cron lines as cron does: without the schedule, split like a shell command."""
    page = (Path(__file__).parents[3] / "docs" / "one-machine.md").read_text()
    lines = re.findall(r"^[\d*]+ [\d*]+ \* \* \* \S+/mlbench (prune .*)$", page, re.MULTILINE)
    assert len(lines) == 2
    for line in lines:
        assert mlbench(*shlex.split(line)).output == "0 runs deleted\n"
    assert mlbench("status", str(finished.id)).code == 0
    listing = re.search(r"`mlbench (runs --columns size[^`]*)`", page)
    assert "size" in mlbench(*shlex.split(known(listing)[1])).output


def test_title_tags_and_note_are_kept_with_the_archive(
    mlbench: Mlbench, client: ApiClient, stack: Home
) -> None:
    run = run_to_end(client, order_steps(client, "said-of", steps=10))
    wait_for(lambda: reload(client, run).archive is not None, what="the run is sealed")
    words = ("--title", "Løss", "--tag", "paper", "--note", "*N*")
    assert mlbench("edit", "said-of", *words).code == 0
    archive = stack.archive / known(reload(client, run).archive)
    client.delete_run(run.id, keep_archive=True).result()
    assert mlbench("import", str(archive)).code == 0
    again = client.get_runs().result().value[-1]
    assert again.annotations == Annotations("Løss", ("paper",), "*N*")
    assert mlbench("delete", "--yes", str(again.id)).code == 0
    archive.unlink()


def test_delete_asks_for_confirmation(mlbench: Mlbench, finished: Run) -> None:
    with mlbench.on_terminal("delete", "finished") as terminal:
        terminal.type("n")
        assert terminal.wait() == 1
    assert f"Delete run {finished.id} (finished), with their series and archives?" in terminal.text
    assert mlbench("status", "finished").code == 0


def test_an_incomplete_policy_is_refused(mlbench: Mlbench) -> None:
    assert "--older-than, --keep-bytes: at least one is required" in mlbench("prune").refusal
    both = mlbench("prune", "--keep-bytes", "1GB", "--keep-archives").refusal
    assert "--keep-bytes: the size includes archives. Leave out --keep-archives." in both
    for option, form in (("--older-than", "90d or 12w"), ("--keep-bytes", "500MB or 20GB")):
        assert f"must be of the form {form}" in mlbench("prune", option, "many").refusal
