"""``mlbench verify`` with a run of a real stack and with its archive."""

import re
from pathlib import Path

from mlbench import ApiClient
from mlbench.contract.records import Run
from tests.conftest import wait_for
from tests.mlbench.cli.conftest import Mlbench
from tests.support.stacks import reload

_VERIFIED = "verified: nothing is missing or damaged\n"
_ADDED = r"not part of the result: [0-9,]+ samples added after the end \("


def test_a_run_and_its_archive(
    mlbench: Mlbench, client: ApiClient, finished: Run, tmp_path: Path
) -> None:
    wait_for(lambda: reload(client, finished).archive, what="the run is sealed")
    client.post_metric(finished.id, "late", 1.0).result()
    printed = mlbench("verify", finished.name).output
    assert re.match(_ADDED, printed)
    assert printed.endswith(_VERIFIED)
    file = mlbench.home.archive / str(reload(client, finished).archive)
    assert mlbench("verify", str(file)).out == _VERIFIED
    damaged = tmp_path / "damaged.mlbench"
    damaged.write_bytes(file.read_bytes()[:-1] + b"x")
    done = mlbench("verify", str(damaged))
    assert (done.code, done.out) == (1, "not verified\n")
    problem = "the file does not match its digest, outside of what was read from it"
    assert done.err == f"{damaged} is damaged: {problem}\n"


def test_an_unknown_run_or_file_is_refused(mlbench: Mlbench, alone: Mlbench) -> None:
    refused = mlbench("verify", "no.mlbench").refusal
    assert refused == "mlbench: no.mlbench: no such run or file\n"
    assert "no.mlbench: file not found. To verify a run: " in alone("verify", "no.mlbench").err


def test_blocks_are_written_from_a_file_only(mlbench: Mlbench, tmp_path: Path) -> None:
    assert "--blocks" in mlbench("verify", "--blocks", str(tmp_path), "7").refusal
