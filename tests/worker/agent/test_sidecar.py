"""A recorded rank keeps all data and hardly waits if its master is unreachable or misbehaves."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from mlbench import ApiClient
from mlbench.local.home import Home
from tests.conftest import free_port
from tests.support.known import known
from tests.support.processes import run_text
from tests.support.recorded import RECORD, STEPS, at_stack, environ, left_in, run_of, sealed
from tests.support.scripted import Reply, endless, serving
from tests.support.stacks import losses

_TAKES_NOTHING = {"run_id": 1, "attempt": 1, "pod": "p", "token": "t", "do": "wait", "offset": 0}
_TAKES_NOTHING |= {"next_poll_seconds": float("nan"), "next_ship_seconds": -1, "time": 0}
_MASTERS = {
    "garbage": Reply(body=b"\xff\x00 garbage"),
    "another kind": Reply(body=[1, 2]),
    "silent": Reply(seconds=1000),
    "overloaded": Reply(503),
    "cut": Reply(None),
    "half": Reply(missing_bytes=9, silent_seconds=1000),
    "liar": Reply(body=_TAKES_NOTHING | {"assignment": None}),
}


@pytest.mark.slow
def test_the_command_runs_and_all_data_is_kept_despite_any_master(
    client: ApiClient, stack: Home, tmp_path: Path
) -> None:
    def record(name: str) -> tuple[str, float]:
        """Record 20 losses. Return the command's messages, and its delay after the last step."""
        user = environ(tmp_path / name, urls[name], "a-wrong-token")
        code = 3 if name == "refuses" else 0
        steps = f"{STEPS} date +%s.%N; exit {code}"
        done = run_text([*RECORD, "--", "sh", "-c", steps, "20", "0.1"], env=user)
        assert done.returncode == code, done.stderr
        outputs[name] = done.stdout
        return done.stderr, time.time() - float(done.stdout)

    outputs: dict[str, str] = {}
    with ExitStack() as servers:
        urls = {name: servers.enter_context(serving(reply)).url for name, reply in _MASTERS.items()}
        urls |= {"endless": servers.enter_context(endless())}
        urls |= {
            "nobody": f"http://127.0.0.1:{free_port()}",
            "refuses": stack.read_connection().url,
        }
        with ThreadPoolExecutor(len(urls)) as pool:
            results = dict(zip(urls, pool.map(record, urls), strict=True))
    assert results["refuses"][1] < 10
    # Ten seconds, plus the time that ten processes need to end on a machine with two cores.
    assert max(after for _, after in results.values()) < 20, results

    user = at_stack(stack, tmp_path)
    for name, (words, _) in results.items():
        [folder] = left_in(environ(tmp_path / name, "", ""))
        assert f"they lie in {folder}, and `mlbench ship {folder}` sends them" in words
        if name == "refuses":
            why = "the token is not this master's. `mlbench token join` prints a new one"
            assert words.count(f"mlbench: not recorded at {urls[name]}: {why}") == 1
        elif name in ("garbage", "another kind", "overloaded", "cut", "nobody"):
            where = f"rank 0 is recorded in {folder}: {urls[name]} has not accepted it yet ("
            assert words.count(where) == 1
        done = run_text([RECORD[0], "ship", folder], env=user)
        assert done.returncode == 0, done.stderr
        assert not folder.exists()
        ended = sealed(client, run_of(client, done.stderr))
        assert ended.state == ("FAILED" if name == "refuses" else "FINISHED"), ended.reason
        assert losses(client, ended) == [*range(20)]
        assert client.get_logs(ended.id, 0).result().value.text == outputs[name]


@pytest.mark.slow
def test_interference_is_measured_only_during_training(
    client: ApiClient, stack: Home, tmp_path: Path
) -> None:
    # The agent describes the machine during the first seconds. That time is not training.
    command = ["sh", "-c", f"sleep 8; {STEPS}", "40", "0.1"]
    done = run_text([*RECORD, "--", *command], env=at_stack(stack, tmp_path))
    run = sealed(client, run_of(client, done.stderr))
    result = client.get_result(run.id).result().value
    [interference] = result.interferences
    assert interference.measured.seconds < known(result.wall_seconds) - 8


def test_a_folder_without_recorded_runs_is_refused(stack: Home, tmp_path: Path) -> None:
    done = run_text([RECORD[0], "ship", tmp_path], env=at_stack(stack, tmp_path))
    assert done.returncode == 2
    assert done.stderr.startswith(f"mlbench: {tmp_path} holds nothing to ship: ")
