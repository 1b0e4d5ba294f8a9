"""``mlbench profile`` on real ranks."""

import gzip
import json
from pathlib import Path

import pytest

from mlbench import ApiClient
from tests.conftest import wait_for
from tests.mlbench.cli.conftest import Mlbench
from tests.support.stacks import losses, order_command, run_to_end

# A tiny learning rate, so that the run never reaches its target.
_ENDLESS = {"epochs": "100000", "learning_rate": "1e-9"}


def test_a_profile_of_a_task_marks_its_run_as_disturbed(
    here: Mlbench, client: ApiClient, tmp_path: Path
) -> None:
    order = client.create_run("watched", 2, None, benchmark="digits", args=_ENDLESS)
    run = order.result().value
    wait_for(lambda: losses(client, run, rank=1), what="it trains")
    options = ("--rank", "1", "--seconds", "2", "-o", "a.json.gz", "--json")
    fields = json.loads(here("profile", "watched", *options).output)
    assert (fields["rank"], fields["tool"], fields["problem"]) == (1, "pytorch", "")
    trace = json.loads(gzip.decompress((tmp_path / "a.json.gz").read_bytes()))
    calls = [event["name"] for event in trace["traceEvents"] if event.get("cat") == "cpu_op"]
    assert {"aten::addmm", "aten::mm", "c10d::allreduce_"} <= set(calls)
    assert len(fields["operators"]) == 10
    assert sum(line["seconds"] for line in fields["lines"]) == pytest.approx(2, abs=0.2)
    assert any(line["activity"] in calls for line in fields["lines"])
    for op in fields["operators"]:
        assert calls.count(op["name"]) in (0, op["calls"])  # or the operator does not run on a CPU
    refused = here("profile", "watched", "--rank", "7").refusal
    assert f"rank: run {run.id} has started ranks 0, 1" in refused
    before = len(losses(client, run))
    wait_for(lambda: len(losses(client, run)) > before, what="it goes on")
    here("stop", "watched")
    run_to_end(client, run)
    disturbed = client.get_result(run.id).result().value.disturbed
    [words] = [text for text in disturbed if "; it was profiled for " in text]
    assert words.startswith("rank 1 ")


def test_code_without_pytorch_is_profiled_with_py_spy(
    here: Mlbench, client: ApiClient, tmp_path: Path
) -> None:
    script = tmp_path / "hot.py"
    script.write_text("print(1, flush=True)\ndef hot():\n    while True: sum(range(1000))\nhot()\n")
    run = order_command(client, "hot", f"python {script}")
    wait_for(lambda: here("logs", "hot").out, what="it runs")
    try:
        printed = here("profile", "hot", "--seconds", "1", "-o", "hot.json.gz").output
        content = json.loads(gzip.decompress((tmp_path / "hot.json.gz").read_bytes()))
        assert "speedscope.app/file-format-schema" in content["$schema"]
        lines = [line.split() for line in printed.splitlines()]
        assert lines[1][:2] == ["hot.py:3", "while"]
        assert lines[1][-2:] == ["100", "%"]
        assert ["hot", "(hot.py)"] in [line[:2] for line in lines]
        notice = f"speedscope.json.gz: stored with run {run.id}, shown on its page"
        assert notice in printed
    finally:
        here("stop", "hot")
    ended = here("profile", "hot").refusal
    assert "is not running, so there is no process to profile" in ended
    run_to_end(client, run)
    disturbed = client.get_result(run.id).result().value.disturbed
    assert any("; it was profiled for " in words for words in disturbed)
