"""The agent's evidence from a hung rank, which must not change the rank's state."""

import json
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from mlbench.contract import names
from mlbench.contract.diagnosis import Collective, Evidence, Frame, Thread
from mlbench.tracking.totals import Totals, TotalsFile
from mlbench_diagnosis import gather as gathering
from mlbench_diagnosis.collectives import find_collectives, read_trace
from mlbench_diagnosis.gather import gather
from mlbench_diagnosis.rank_stacks import parse_stacks
from mlbench_worker.agent.attempt import Attempt
from mlbench_worker.agent.master_client import MasterClient
from mlbench_worker.agent.master_client import PollResponse as Answer
from mlbench_worker.agent.rank_recorder import EvidenceRequests
from tests.conftest import wait_for
from tests.support.assignments import ASSIGNMENT
from tests.support.processes import run_text
from tests.support.scripted import Reply, serving
from tests.worker.agent.conftest import Begin

# Holds the interpreter lock in C code, which Python code cannot interrupt.
_LOCKED = """
import ctypes, os, subprocess, threading
other = threading.Thread(target=threading.Event().wait, daemon=True)
other.start()
child = subprocess.Popen(["sleep", "60"])
print("hangs", flush=True)
def locked():
    ctypes.PyDLL(None).read(os.pipe()[0], ctypes.create_string_buffer(1), 1)
locked()
"""

_REPLY = Answer("wait", 1.0, None)


def look(attempt: Attempt, native_rank: int | None = None) -> Evidence:
    return gather(
        attempt, attempt.pid, Totals(7, step_seconds=3.5, progress_at=time.time() - 5), native_rank
    )


@pytest.mark.parametrize("by", ["py-spy", "faulthandler"])
def test_stacks_are_read_while_the_interpreter_lock_is_held(
    begin: Begin, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    if by == "faulthandler":
        monkeypatch.setattr(gathering, "find_spy", lambda: None)
    attempt = begin(sys.executable, "-c", _LOCKED)
    evidence = look(attempt)
    assert (evidence.stacks_by, evidence.rank, evidence.steps) == (by, ASSIGNMENT.rank, 7)
    [main, other] = evidence.threads
    assert main.is_main
    assert [(f.function, f.line) for f in main.frames] == [("locked", 8), ("<module>", 9)]
    assert other.frames[0].file.endswith("threading.py")
    [python, sleep] = evidence.processes
    assert (python.pid, python.state, sleep.parent) == (attempt.pid, "S", attempt.pid)
    assert (sleep.command, sleep.state) == ("sleep 60", "S")
    assert evidence.stdout_end == "hangs\n"
    assert evidence.quiet_seconds == pytest.approx(5, abs=1)
    assert evidence.usual_step_seconds == 0.5
    assert evidence.gathered_in_seconds < 10
    assert len(look(attempt).threads) == 2  # the process still runs


def test_native_frames_are_read_from_the_requested_rank(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = begin(sys.executable, "-c", _LOCKED)
    rank = ASSIGNMENT.rank
    [main, _] = look(attempt, native_rank=rank).native
    names = [frame.function for frame in main.frames]
    assert names.index("locked") > [name.endswith("read") for name in names].index(True)
    assert look(attempt, native_rank=rank + 1).native == ()
    monkeypatch.setattr(gathering, "free_memory", lambda root: 499_999_999)
    scarce = look(attempt, native_rank=rank)
    assert (scarce.native, scarce.missing[-1].split(":")[0]) == ((), "frames of C")
    assert "500 MB" in scarce.missing[-1]


def test_a_stopped_process_is_reported(begin: Begin) -> None:
    attempt = begin(sys.executable, "-c", "print(1, flush=True)\nwhile True: pass")
    assert attempt.pid is not None
    os.kill(attempt.pid, signal.SIGSTOP)
    wait_for(lambda: look(attempt).processes[0].state == "T", what="the process is stopped")
    assert look(attempt).threads
    # py-spy would wait for the stopped process to read its native frames.
    assert "state T" in look(attempt, native_rank=ASSIGNMENT.rank).missing[-1]


def test_a_process_without_a_stack_handler_is_not_killed(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "find_spy", lambda: None)
    # An empty environment prevents the hook's import, and the shell is not a Python process.
    command = f"env -i {sys.executable} -c 'import time; print(1, flush=True); time.sleep(60)'; :"
    attempt = begin("sh", "-c", command)
    evidence = look(attempt)
    assert [process.command.split()[0] for process in evidence.processes] == ["sh", sys.executable]
    assert (evidence.threads, evidence.stacks_by) == ((), "")
    python = evidence.processes[1].pid
    words = f"stacks of process {python}: faulthandler: it shows no stacks by itself"
    assert words in evidence.missing
    assert attempt.exit is None
    assert psutil.pid_exists(python)


def test_the_size_of_evidence_is_limited(begin: Begin) -> None:
    deep = (
        "def f(n):\n  f(n - 1) if n else E.wait()\n"
        "import threading; E = threading.Event()\n"
        "for _ in range(70): threading.Thread(target=f, args=(200,), daemon=True).start()\n"
        "print('x' * 100_000, flush=True); E.wait()"
    )
    evidence = look(begin(sys.executable, "-c", deep))
    assert 0 < len(json.dumps(evidence, default=vars)) <= 256 << 10
    assert evidence.threads[0].is_main
    assert len(evidence.stdout_end) == 8 << 10


def test_the_flight_recorder_is_parsed(tmp_path: Path) -> None:
    def entry(group: str, number: int, *, retired: bool) -> dict[str, object]:
        return {
            "process_group": [group, ""],
            "is_p2p": False,
            "collective_seq_id": number,
            "profiling_name": "gloo:all_reduce",
            "input_sizes": [[3, 4]],
            "retired": retired,
        }

    trace = {
        "entries": [entry("0", 1, retired=True), entry("0", 2, retired=False)],
        "pg_status": {
            "0": {"last_enqueued_collective": "2"},
            "1": {"last_enqueued_collective": "5"},
        },
    }
    last = Collective("0", 2, "gloo:all_reduce", ((3, 4),), retired=False)
    assert read_trace(trace) == [last, Collective("1", 5, "", (), retired=True)]
    assert read_trace({"pg_status": {}}) == [Collective("0", 0, "", (), retired=True)]
    assert find_collectives(tmp_path) == ()


def test_the_output_of_faulthandler_is_parsed() -> None:
    text = """\
Thread 0x00007f1 [loader] (most recent call first):
  File "/a b.py", line 5 in <lambda>

Current thread 0x00007f2 (most recent call first):
  <no Python frame>

Thread 0x00007f3 (most recent call first):
  File "/c.py", line 1 in step
  File "/c.py", line 9 in <module>
"""
    frames = (Frame("step", "/c.py", 1), Frame("<module>", "/c.py", 9))
    assert parse_stacks(3, text) == [
        Thread(3, "MainThread", True, frames),
        Thread(3, "loader", False, (Frame("<lambda>", "/a b.py", 5),)),
    ]


def test_evidence_is_gathered_once_and_sent_until_it_is_accepted(begin: Begin) -> None:
    attempt = begin("sh", "-c", "echo; sleep 60; :")
    with serving(Reply(503), Reply(204)) as server:
        asked = server.asked
        totals = TotalsFile(Path(names.totals_file(str(attempt.file("metrics")), 1, 5)))
        totals.publish(3, 30, {})
        diagnoses = EvidenceRequests(lambda: MasterClient(server.url, "token"))
        for wanted in (None, 5, 5, None):
            diagnoses.follow(replace(_REPLY, diagnosis=wanted), "pod", attempt)
        wait_for(lambda: len(asked) == 2, what="the evidence is sent again")
        assert {request.path for request in asked} == {"/api/workers/pod/diagnoses/5"}
        assert asked[0].body == asked[1].body
        evidence = json.loads(asked[1].body)
        assert (evidence["steps"], evidence["exit_code"]) == (3, None)
        assert [process["command"] for process in evidence["processes"]][1:] == ["sleep 60"]
        diagnoses.follow(replace(_REPLY, diagnosis=6), "pod", attempt)
        wait_for(lambda: len(asked) == 3, what="the next request is answered")


def test_real_hung_ranks_are_distinguished_from_waiting_ranks() -> None:
    """Two kinds of hangs. ``benchmarks/diagnoses`` has all of them."""
    names = ("interpreter-2", "exited-2")
    hangs = {"DIAGNOSES": " ".join(f"torch-spy-{one}-1" for one in names)}
    command = [sys.executable, "-m", "benchmarks.run", "diagnoses"]
    done = run_text(command, env={**os.environ, **hangs}, cwd=Path(__file__).parents[3])
    total = " 2 hangs: 2 right, 0 wrong, 0 cannot tell; line right 1 of 1;"
    assert total in done.stdout.splitlines()[-1], done.stdout + done.stderr
