"""``mlbench backup`` and ``restore`` between two home folders."""

import json
import shutil
import sqlite3
import zipfile
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from mlbench import ApiClient
from mlbench.local import launch
from mlbench.local.home import Home
from tests.conftest import wait_for
from tests.mlbench.cli.conftest import Mlbench
from tests.support.stacks import order_steps, run_to_end


@pytest.mark.slow
def test_runs_are_restored_from_a_backup_of_a_running_stack(
    mlbench: Mlbench, alone: Mlbench, client: ApiClient, tmp_path: Path
) -> None:
    ended = run_to_end(client, order_steps(client, "ended", steps=20, rate=1000))
    values = client.get_run_metrics(ended.id).result().json()
    wait_for(lambda: client.get_run(ended.id).result().value.archive, what="it is sealed")
    active = order_steps(client, "active", steps=100_000, rate=20)
    wait_for(lambda: client.get_run_metrics(active.id).result().json(), what="it records")
    file = tmp_path / "runs.zip"
    printed = mlbench("backup", str(file), "--json").json
    assert printed["has_prometheus"]
    assert printed["missing_archives"] == []
    assert file.stat().st_mode & 0o777 == 0o600
    assert not list((mlbench.home.prometheus / "data" / "snapshots").iterdir()), (
        "the snapshot must be deleted"
    )
    client.stop_run(active.id).result()

    restored = alone("restore", str(file), "--json").json
    assert (restored["runs"], restored["archives"]) == (printed["runs"], printed["archives"])
    assert "is not empty" in alone("restore", str(file)).refusal
    # Named tokens stay valid because the master's token, which signs them, is the same.
    assert (alone.home.root / "token").read_text() == (mlbench.home.root / "token").read_text()
    connection = launch.start_detached(alone.home, workers=2)
    try:
        assert alone("verify", str(ended.id)).code == 0
        with ApiClient.from_home(alone.home) as other:
            assert other.get_run_metrics(ended.id).result().json() == values
            query = f'mlbench_run_metric{{run_id="{ended.id}",metric="train_loss"}}[1y]'
            url = f"{connection.prometheus_url}/api/v1/query"
            answer = httpx.get(url, params={"query": query}).json()
            assert answer["data"]["result"], "Prometheus must have the run's samples"
            assert other.get_run_metrics(active.id).result().json()
            other.stop_run(active.id).result()
    finally:
        launch.stop(alone.home)


@pytest.fixture
def home(alone: Mlbench) -> Home:
    """A home folder with one sealed run, without a stack."""
    alone.home.make()
    alone.home.archive.mkdir()
    (alone.home.archive / "a.mlbench").write_bytes(b"archive" * 1000)
    with sqlite3.connect(alone.home.database) as database:
        database.execute("CREATE TABLE run (id INTEGER, archive TEXT, added TEXT)")
        database.execute("INSERT INTO run VALUES (1, 'a.mlbench', NULL)")
    return alone.home


def test_a_stopped_stack_is_backed_up(alone: Mlbench, home: Home, tmp_path: Path) -> None:
    file = tmp_path / "runs.zip"
    done = alone("backup", str(file))
    assert done.out.startswith(f"{file}: 1 run, 1 archive, ")
    assert "Prometheus" in done.err
    other = replace(alone, home=Home(tmp_path / "new" / "home"))
    assert "1 run, 1 archive of 20" in other("restore", str(file)).output
    assert (other.home.archive / "a.mlbench").read_bytes() == b"archive" * 1000
    assert other.home.database.stat().st_mode & 0o777 == 0o600
    (home.archive / "a.mlbench").unlink()
    assert "archives not found: a.mlbench" in alone("backup", str(file)).err


def test_a_backup_is_restored_into_volumes(alone: Mlbench, home: Home, tmp_path: Path) -> None:
    file, damaged = tmp_path / "runs.zip", tmp_path / "damaged.zip"
    assert alone("backup", str(file)).code == 0
    with zipfile.ZipFile(file) as whole, zipfile.ZipFile(damaged, "w") as target:
        for name in whole.namelist():
            is_archive = name == "archive/a.mlbench"
            target.writestr(name, b"other" if is_archive else whole.read(name))
    other = replace(alone, home=Home(tmp_path / "volume"))
    for folder in (other.home.root, other.home.archive):
        (folder / "lost+found").mkdir(parents=True)
    mount_point = other.home.root.stat().st_ino

    assert "does not match its digest" in other("restore", str(damaged)).refusal
    assert "1 run, 1 archive of 20" in other("restore", str(file)).output
    assert other.home.root.stat().st_ino == mount_point
    assert (other.home.archive / "a.mlbench").read_bytes() == b"archive" * 1000
    assert other.home.database.stat().st_mode & 0o777 == 0o600
    assert not list(other.home.root.glob(".*")), "no temporary file must stay"
    assert "is not empty" in other("restore", str(file)).refusal


def test_an_invalid_backup_is_refused(alone: Mlbench, home: Home, tmp_path: Path) -> None:
    file, bad = tmp_path / "runs.zip", tmp_path / "bad.zip"
    assert alone("backup", str(file)).code == 0
    other = replace(alone, home=Home(tmp_path / "other"))

    with zipfile.ZipFile(file) as whole:
        members = {name: whole.read(name) for name in whole.namelist()}
    index = json.loads(members["backup.json"])

    def described(**fields: object) -> dict[str, bytes]:
        return {"backup.json": json.dumps(index | fields).encode()}

    digests, database = index["digests"], members["mlbench.db"]
    outside = described(digests=digests | {"../evil": digests["mlbench.db"]})
    for changed, problem in (
        ({"mlbench.db": b"x"}, "does not match its digest"),
        ({"more": b"x"}, "not those that it lists"),
        (described(digests=digests | {"more": "x"}), "not those that it lists"),
        (outside | {"../evil": database}, "not those that it lists"),
        (described(format=2, version="9.0"), "a newer version (9.0)"),
        ({"backup.json": b"{}"}, "is not a backup"),
        (described(digests=1), "is not a backup"),
        (described(missing_archives=1), "is not a backup"),
        (described(runs="x"), "is not a backup"),
    ):
        with zipfile.ZipFile(bad, "w") as target:
            for name, content in (members | changed).items():
                target.writestr(name, content)
        refusal = other("restore", str(bad)).refusal
        assert (problem in refusal, refusal.count("\n")) == (True, 1), refusal
        assert not other.home.root.exists()
    for at in range(40, file.stat().st_size, 37):
        damaged = bytearray(file.read_bytes())
        damaged[at] ^= 0xFF
        bad.write_bytes(damaged)
        done = other("restore", str(bad))
        # Some bytes of a zip file, such as timestamps, do not affect its content.
        if done.code == 0:
            assert (other.home.archive / "a.mlbench").read_bytes() == b"archive" * 1000
            shutil.rmtree(other.home.root)
        else:
            assert done.refusal.count("\n") == 1
    bad.write_bytes(file.read_bytes()[:-100])
    assert "cannot be restored" in other("restore", str(bad)).refusal
    assert "cannot be restored" in other("restore", str(tmp_path / "none.zip")).refusal
    assert not (tmp_path / "evil").exists()


def test_a_failed_backup_leaves_no_files(alone: Mlbench, home: Home, tmp_path: Path) -> None:
    nowhere = tmp_path / "none" / "runs.zip"
    assert f"mlbench: {nowhere}: No such file" in alone("backup", str(nowhere)).refusal
    home.database.write_bytes(b"not a database" * 100)
    assert "mlbench.db" in alone("backup", str(tmp_path / "runs.zip")).refusal
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home"]
    assert not list(home.root.glob(".backup-*"))


def test_a_postgresql_database_is_refused_with_a_hint(alone: Mlbench, tmp_path: Path) -> None:
    postgres = replace(alone, more={"DATABASE_URL": "postgresql://db/mlbench"})
    assert "pg_dump" in postgres("backup", str(tmp_path / "runs.zip")).refusal
    assert "no runs here" in alone("backup", str(tmp_path / "runs.zip")).refusal
