"""``mlbench run``, ``status``, ``stop`` and ``delete``: exit codes, JSON and output."""

import json
import re
import shlex
from functools import partial
from pathlib import Path

import pytest

from mlbench import ApiClient
from mlbench.contract.people import own_user
from tests.conftest import wait_for
from tests.mlbench.cli.conftest import Mlbench
from tests.support.stacks import FAILS

_FAST = ("--set", "steps=200", "--set", "rate=1000")
_ENDLESS = ("--set", "steps=6000", "--set", "rate=100")

# --- run ---


def test_a_run_is_watched_to_its_end(mlbench: Mlbench, client: ApiClient) -> None:
    done = mlbench.process("run", "steps", "--name", "watched", *_FAST)
    assert done.code == 0
    assert re.match(r"Web page    \S+\nrun \d+ \(watched\) on 2 workers\n", done.err)
    assert re.search(r"^epoch [01]  loss 0\.\d{4} .* s$", done.err, re.MULTILINE)
    run = next(run for run in client.get_runs().result().value if run.name == "watched")
    assert run.delivery is not None
    connection = mlbench.home.read_connection()
    lines = done.out.splitlines()
    assert lines[0] == f"run {run.id} (watched): completed without a target"
    assert re.search(r"^Throughput +[\d,]+ samples/s *$", done.out, re.MULTILINE)
    assert "Epochs" not in done.out, "details are shown by the next command"
    assert re.search(rf"^Missing samples +0 of {run.delivery.recorded:,} \(", done.out, re.M)
    assert lines[-3] == f"Web page    {connection.url}/runs/{run.id}"
    assert lines[-2] == f"Details     mlbench status {run.id}"
    assert connection.token not in done.out + done.err, "the output may be a log that others read"
    query = f'last_over_time(mlbench_run_metric{{run_id="{run.id}",metric="train_loss"}}[1y])'
    assert lines[-1] == f"PromQL      {query}"


def test_a_run_as_json_is_one_document(mlbench: Mlbench, client: ApiClient) -> None:
    fields = json.loads(mlbench("run", "steps", "--workers", "1", *_FAST, "--json").output)
    answer = client.get_run(fields["id"]).result().json()
    # The run may be evaluated and sealed in the meantime.
    later = ("archive", "archive_sha256", "disturbed", "outcome", "contention_share")
    own = {name: fields[name] for name in ("web_url", "result", *later)}
    assert fields == answer | own
    assert fields["web_url"].endswith(f"/runs/{fields['id']}")
    assert re.fullmatch(r"steps-\d{8}-\d{6}", fields["name"])
    assert fields["num_workers"] == 1
    assert fields["args"] == {"steps": "200", "rate": "1000"}
    assert fields["result"] == client.get_result(fields["id"]).result().json()
    assert fields["result"]["epochs"] == 2
    assert 300 < fields["result"]["samples_per_second"] <= 1200
    assert fields["result"]["target"] is None


def test_further_options_of_a_request(mlbench: Mlbench) -> None:
    more = ("--seed=7", "--light", "--backend=gloo", "--restarts=2", "--cpus=1", "--deadline=2m")
    run = mlbench("run", "digits", *more, "--detach", "--json").json
    assert run["args"] == {"backend": "gloo", "goal": "90", "seed": "7"}
    assert (run["seed"], run["light_target"], run["max_restarts"]) == (7, True, 2)
    assert (run["num_cpus"], run["deadline_seconds"]) == (1, 120)
    assert mlbench("stop", str(run["id"])).code == 0


def test_a_failed_run_shows_the_rank_and_the_reason(mlbench: Mlbench) -> None:
    program, *words = shlex.split(FAILS)
    done = mlbench("run", "--image", "local", "--name", "wrong", program, "--", *words)
    assert done.code == 1
    crashed, reason, output, *_ = done.out.splitlines()
    assert re.fullmatch(r"run \d+ \(wrong\): crashed", crashed)
    assert re.match(r"rank \d on local-mlbench-worker-\d exited with code 2", reason)
    assert output == "what is wrong"
    status = mlbench("status", "wrong", "--json").json
    assert (status["state"], status["working_dir"]) == ("FAILED", str(Path.cwd()))


def test_a_detached_run_is_stopped_and_deleted(mlbench: Mlbench, client: ApiClient) -> None:
    ordered = mlbench("run", "steps", "--name", "detached", *_ENDLESS, "--detach", "--json").json
    assert ordered["state"] == "INITIALIZED"
    run_id = str(ordered["id"])
    read = partial(client.get_run_metrics, int(run_id), last_n=1)
    wait_for(lambda: read().result().value, what="the run records")

    remedy = "or queue this one with queue=true (`mlbench run --queue`).\n"
    active = f"mlbench: run {run_id} (detached) is active. Wait for the end, stop an active run, "
    assert mlbench("run", "steps", *_FAST).refusal == active + remedy
    assert mlbench("stop", "detached").output == f"run {run_id} (detached): STOPPED\n"
    assert mlbench("stop", run_id, "--json").json["state"] == "STOPPED"

    unattended = "mlbench: --yes: required if standard input is not a terminal\n"
    assert mlbench("delete", run_id).refusal == unattended
    again = mlbench("run", "steps", "--name", "again", *_FAST, "--json").json["id"]
    deleted = f"run {run_id} (detached) deleted\nrun {again} (again) deleted\n"
    assert mlbench("delete", "--yes", run_id, "again", run_id).output == deleted
    gone = f"mlbench: run {run_id} was deleted by {own_user()}\n"
    assert mlbench("delete", "--yes", run_id).refusal == gone

    # An active run is stopped before it is deleted.
    name = "Not for long"
    other = mlbench("run", "steps", "--name", name, *_ENDLESS, "--detach", "--json").json
    assert mlbench("delete", "-y", name).output == f"run {other['id']} ({name}) deleted\n"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("steps --set rate", "--set rate: must be KEY=VALUE, e.g. epochs=3"),
        ("7 --name 7", "--name: must not be a number, which is read as an id (got 7)"),
        ("steps --workers 99", "--workers: must be at most 16"),
        ("steps --bandwidth 0.01", "--bandwidth: "),
    ],
)
def test_an_invalid_request_is_refused(mlbench: Mlbench, call: str, message: str) -> None:
    refused = mlbench("run", *call.split()).refusal
    assert refused.startswith(f"mlbench: {message}")
    assert refused.count("\n") == 1


# --- own code ---


def test_own_code_gets_its_own_arguments(here: Mlbench, client: ApiClient, tmp_path: Path) -> None:
    tell = "import json, os, sys; print(json.dumps([*sys.argv[1:], os.getcwd()]))\n"
    (tmp_path / "tell it.py").write_text(tell)
    awkward = ("--my-arg", "3", "a b", '{"x": [1]}', "it's", "$HOME", "", "--name", "-o")
    run = here("run", "./tell it.py", "--workers", "2", "--seed=5", "--json", "--", *awkward).json
    assert (run["state"], run["backend"], run["seed"]) == ("FINISHED", "gloo", 5)
    assert (run["benchmark"], run["image"]) == ("", "local")
    assert re.fullmatch(r"tell-it-\d{8}-\d{6}", run["name"])
    for rank in (0, 1):
        text = client.get_logs(run["id"], rank).result().value.text
        assert json.loads(text) == [*awkward, str(tmp_path)]
