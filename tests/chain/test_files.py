"""Output files are archived byte for byte, even if the master is killed during the upload."""

import hashlib
import json
import os
import random
import re
import sqlite3
import subprocess
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import TypeVar

import pytest

from mlbench import ApiClient
from mlbench.contract import names
from mlbench.contract.records import Run
from mlbench.local.home import Home
from tests.support.processes import run_text
from tests.support.recorded import RECORD, at_stack, run_of, sealed
from tests.support.stacks import kill_service, order_command, service

pytestmark = pytest.mark.slow

Job = TypeVar("Job")

_FILES = 16
_PARTLY = "SELECT 1 FROM stream WHERE name = 'files' AND size > 100000 AND size < final_size"


@pytest.fixture
def output_files(tmp_path: Path) -> dict[str, bytes]:
    """Files that a rank copies to its output folder, nearly as many bytes as are allowed."""
    folder = tmp_path / "files" / "deep"
    folder.mkdir(parents=True)
    source = random.Random(7)  # noqa: S311 - some bytes, no secret
    files = {f"deep/{number}.bin": source.randbytes(1_000_000) for number in range(_FILES)}
    for name, content in files.items():
        (tmp_path / "files" / name).write_bytes(content)
    return files


def test_files_of_a_run_survive_a_kill(
    client: ApiClient, stack: Home, tmp_path: Path, output_files: dict[str, bytes]
) -> None:
    _copy(tmp_path)
    run = _kill_while_it_ships(
        stack, lambda: order_command(client, "files", "sh copy.sh", working_dir=str(tmp_path))
    )
    _assert_sealed(stack, client, run, output_files)


def test_files_of_an_external_job_survive_a_kill(
    client: ApiClient, stack: Home, tmp_path: Path, output_files: dict[str, bytes]
) -> None:
    user = at_stack(stack, tmp_path / "user")
    command = [*RECORD, "--", "sh", str(_copy(tmp_path))]
    recording = _kill_while_it_ships(
        stack, lambda: subprocess.Popen(command, env=user, stderr=subprocess.PIPE)
    )
    errors = recording.communicate(timeout=120)[1].decode()
    assert recording.returncode == 0, errors
    # On a slow machine, the master is down for longer than the recorder waits.
    for folder in re.findall("`mlbench ship (.*)`", errors):
        run_text([RECORD[0], "ship", folder], env=user, check=True)
    _assert_sealed(stack, client, run_of(client, errors), output_files)


def _copy(folder: Path) -> Path:
    script = folder / "copy.sh"
    script.write_text(f'cp -r {folder}/files/. "$MLBENCH_OUTPUT"\n')
    return script


def _kill_while_it_ships(home: Home, start: Callable[[], Job]) -> Job:
    api = service(home, "gunicorn")
    processes = [api, *api.children(recursive=True)]
    job = start()
    deadline = time.monotonic() + 60
    with sqlite3.connect(f"file:{home.database}?mode=ro", uri=True) as database:
        while not database.execute(_PARTLY).fetchone():
            assert time.monotonic() < deadline, "no upload was observed while it was in progress"
            time.sleep(0.001)
        for process in processes:
            process.suspend()
        assert database.execute(_PARTLY).fetchone(), "the upload ended before the kill"
    kill_service(home, "gunicorn", "mlbench_master.controller")
    return job


def _assert_sealed(home: Home, client: ApiClient, run: Run, output_files: dict[str, bytes]) -> None:
    ended = sealed(client, run)
    assert ended.state == "FINISHED", ended.reason
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in output_files.items()}
    files = client.get_files(run.id).result().value
    assert {file.name: file.sha256 for file in files} == digests
    for file in files:
        target = BytesIO()
        client.download_file(run.id, file, target)
        assert target.getvalue() == output_files[file.name]
    verify = [RECORD[0], "verify", str(run.id), "--json"]
    verified = run_text(verify, env={**os.environ, names.ENV_HOME: str(home.root)})
    assert json.loads(verified.stdout)["problems"] == [], verified.stderr
