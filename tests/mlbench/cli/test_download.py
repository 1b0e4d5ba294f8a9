"""``mlbench download`` writes the whole file or nothing."""

import csv
import json
import os
import signal
import stat
import subprocess
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from mlbench import ApiClient
from mlbench.contract.records import Run
from mlbench.local.home import Home, StackConnection
from tests.conftest import wait_for
from tests.mlbench.cli.conftest import Mlbench
from tests.support.known import known
from tests.support.scripted import Reply, Scripted, answering


def test_the_default_is_a_zip_file_of_the_run(here: Mlbench, tmp_path: Path, finished: Run) -> None:
    printed = here("download", "finished").output
    [file] = tmp_path.iterdir()
    assert file.name == "metrics_finished.zip"
    assert printed == f"metrics_finished.zip: {file.stat().st_size:,} bytes\n"
    with zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None
        assert len(json.loads(archive.read("result_train_loss @ 1.json"))) == 200


def test_the_file_name_or_an_option_determines_the_format(
    here: Mlbench, tmp_path: Path, client: ApiClient, finished: Run
) -> None:
    as_json = here("download", str(finished.id), "-o", "all.JSON", "--json").json
    content = (tmp_path / "all.JSON").read_bytes()
    assert as_json == {"file": "all.JSON", "format": "json", "bytes": len(content)}
    assert json.loads(content) == client.get_run_metrics(finished.id).result().json()
    assert here("download", "finished", "-o", "all.txt", "--format", "csv").code == 0
    with (tmp_path / "all.txt").open(newline="") as file:
        assert len(list(csv.reader(file))) > 400


def test_parquet_has_a_row_for_each_value(
    here: Mlbench, tmp_path: Path, client: ApiClient, finished: Run
) -> None:
    assert here("download", "finished", "-o", "all.parquet").code == 0
    rows = pq.read_table(tmp_path / "all.parquet").to_pylist()
    series = client.get_run_metrics(finished.id, exact=True).result().value
    # The run is sealed. Samples that other tests add to it are not exported.
    assert len(rows) == sum(not point.added for points in series.values() for point in points)
    losses = [row for row in rows if (row["metric"], row["rank"]) == ("train_loss", 1)]
    assert [row["value"] for row in losses] == [p.number for p in series["train_loss @ 1"]]
    steps = {datetime.fromisoformat(p.date): int(p.number) for p in series["step @ 1"]}
    assert {row["time"]: row["step"] for row in losses}.items() <= steps.items()


def test_stdout_gets_only_the_file(here: Mlbench, tmp_path: Path, finished: Run) -> None:
    assert here("download", "finished", "-o", "all.json").code == 0
    printed = here("download", "finished", "-o", "-", "--format", "json").output
    assert printed == (tmp_path / "all.json").read_text()


def test_a_closed_pipe_ends_the_download_quietly(here: Mlbench, finished: Run) -> None:
    command = [*here.program, "download", "finished", "-o", "-", "--format", "json"]
    reading, writing = os.pipe()
    os.close(reading)
    environ = {**os.environ, "MLBENCH_HOME": str(here.home.root)}
    with os.fdopen(writing, "wb") as pipe:
        output: Any = {"stdout": pipe, "stderr": subprocess.PIPE}
        done = subprocess.run(command, env=environ, **output, check=False)
    assert (done.returncode, done.stderr) == (1, b"")


def test_an_existing_file_is_replaced_with_default_permissions(
    here: Mlbench, tmp_path: Path, finished: Run
) -> None:
    real, link, new = tmp_path / "real.json", tmp_path / "link.json", tmp_path / "new"
    real.write_text("old")
    link.symlink_to(real)
    new.touch()
    assert here("download", "finished", "-o", "link.json").code == 0
    assert link.is_symlink()
    assert json.loads(real.read_text())
    assert stat.S_IMODE(real.stat().st_mode) == stat.S_IMODE(new.stat().st_mode)
    assert sorted(tmp_path.iterdir()) == [link, new, real]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (
            "all.txt",
            "name must end with one of zip, csv, json, parquet, mllog, tensorboard. "
            "Or add --format.",
        ),
        ("no/folder.zip", "No such file or directory"),
        ("folder.zip", "exists and is not a regular file"),
        ("/dev/null --format csv", "exists and is not a regular file"),
        ("- --json", "requires a file or pipe as stdout, no --json"),
    ],
)
def test_an_unwritable_target_is_refused(
    here: Mlbench, tmp_path: Path, finished: Run, target: str, message: str
) -> None:
    (tmp_path / "folder.zip").mkdir()
    refused = here("download", "finished", "-o", *target.split()).refusal
    assert refused.startswith(f"mlbench: -o {target.split(maxsplit=1)[0]}: {message}")
    assert [file.name for file in tmp_path.iterdir()] == ["folder.zip"]


# --- Interrupted downloads: the master stops sending after a part of the file. ---


@pytest.fixture
def halting(finished: Run) -> Iterator[Scripted]:
    part = Reply(200, b"x" * 200_000, missing_bytes=1_000_000, silent_seconds=60)
    run = Reply(200, finished.fields)
    with answering(lambda asked: part if "metrics" in asked.path else run) as master:
        yield master


@pytest.fixture
def stuck(halting: Scripted, mlbench: Mlbench, tmp_path: Path) -> Mlbench:
    """The command line of such a master, called in a folder with an older file."""
    home, folder = Home(tmp_path / "home"), tmp_path / "folder"
    home.write_connection(StackConnection(halting.url, "token", "http://127.0.0.1:9"))
    folder.mkdir()
    (folder / "all.zip").write_text("old")
    return replace(mlbench, home=home, folder=folder)


def files(folder: Path | None) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in known(folder).iterdir()}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_download_leaves_nothing(stuck: Mlbench, number: signal.Signals) -> None:
    with stuck.on_terminal("download", "1", "-o", "all.zip") as terminal:
        wait_for(lambda: len(files(stuck.folder)) == 2, what="part of the file is written")
        terminal.read_until(r"0\.2/1\.2 MB")
        terminal.process.send_signal(number)
        assert terminal.wait() == 130
    assert terminal.text.endswith("interrupted; nothing was written\r\n")
    assert files(stuck.folder) == {"all.zip": len("old")}


def test_an_incomplete_download_leaves_nothing(stuck: Mlbench, halting: Scripted) -> None:
    halting.hurry.set()
    refused = stuck("download", "1", "-o", "all.zip").refusal
    assert refused.startswith(f"mlbench: the master at {halting.url} does not respond")
    assert files(stuck.folder) == {"all.zip": len("old")}
