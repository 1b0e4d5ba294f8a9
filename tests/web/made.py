"""Builders that write large amounts of data to a master's database."""

import base64
import gzip
import json
import time
from dataclasses import replace
from typing import Any, Final

from peewee import fn

from mlbench.contract.diagnosis import Frame
from mlbench.contract.output import OutputFile
from mlbench.contract.profiles import CodeLine, Operator, ProfileResult
from mlbench_master.database.models import (
    Diagnosis,
    Pod,
    Profile,
    Rank,
    RankEvidence,
    Run,
    Worker,
    run_owner,
)
from mlbench_master.recording import streams
from tests.support.evidence import MAIN, STEP, entered, evidence_of, over
from tests.support.rows import line, make_run, record, ship_files

_PIXEL: Final = base64.b64decode(
    b"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def make_workers(count: int) -> None:
    """Store worker pods whose agents have just sent a heartbeat."""
    now = time.time()
    names = [f"release-mlbench-worker-{number}" for number in range(count)]
    Pod.insert_many(
        {
            "name": name,
            "phase": "Running",
            "ip": f"10.0.{number // 250}.{number % 250}",
            "node": f"node-{number % 10}",
            "labels": {"app": "mlbench", "component": "worker"},
        }
        for number, name in enumerate(names)
    ).execute()
    Worker.insert_many(
        {"name": name, "state": "idle", "ip": "10.0.0.1", "seen_at": now} for name in names
    ).execute()


def make_ended_run(**fields: Any) -> Run:
    """Store a run of one hour that ended normally, under the next id."""
    now = time.time()
    times = {"created_at": now - 3610, "started_at": now - 3600, "finished_at": now}
    counted = {"recorded": 0, "in_prometheus": 0, "record_only": 0}
    last = Run.select(fn.MAX(Run.id)).scalar() or 0
    ended = {"id": last + 1, "state": "FINISHED", "delivery": counted}
    return make_run(**{"num_workers": 1, **times, **ended, **fields})


def make_runs(count: int) -> None:
    """Store numbered runs that ended in different states."""
    states = ["FINISHED", "FAILED", "STOPPED"]
    for number in range(count):
        make_ended_run(name=f"number-{number}", state=states[number % 3])


def make_diagnosis(run: Run) -> None:
    """Store a hang diagnosis: rank 1 is late, at a function with a hostile name."""
    asked = Diagnosis.create(run=run, attempt=2, reason="stalled", asked_at=run.created_at + 300)
    hostile = Frame("<img src=x onerror=alert(1)>", "/home/me/data.py", 41)
    late = evidence_of(1, over(21), at=(hostile, STEP, MAIN))
    for one in (evidence_of(0, entered(22)), late):
        RankEvidence.create(diagnosis=asked, rank=one.rank, evidence=one.to_fields())


def make_profile(run: Run) -> None:
    """Store a profile of a rank from the middle of a run, with a hostile operator name."""
    events = [
        {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": 1.0, "dur": took}
        for name, took in (("aten::linear", 900.0), ("<b>aten::addmm</b>", 800.0))
    ]
    content = gzip.compress(json.dumps({"traceEvents": events}).encode())
    operators = (Operator("<b>aten::addmm</b>", 1, 800e-6, 800e-6),)
    lines = (CodeLine("train.py:42 <i>wait()</i>", 4.0, "gloo:all_reduce", 3.0),)
    began = run.created_at + 1800
    recorded = ProfileResult("pytorch", began, began + 300, "", operators, lines)
    about = {"attempt": 2, "rank": 0, "seconds": 5, "asked_at": run.created_at + 1799}
    held = {"recorded": recorded.to_fields(), "size": len(content), "sha256": ""}
    Profile.create(run=run, **about, **held, content=content)
    failed = replace(recorded, tool="", problem="rank: none of its processes is a Python")
    Profile.create(run=run, **{**about, "rank": 1}, recorded=failed.to_fields())


def make_talker(lines: int) -> Run:
    """Store a run of two attempts with this number of log lines per rank; rank 1 failed."""
    why = "rank 1 on local-mlbench-worker-1 exited with code 3"
    run = make_ended_run(name="talker", num_workers=2, attempt=2, state="FAILED", reason=why)
    ship_files(
        run,
        {
            "plots/loss.png": _PIXEL,
            "plots/loss.csv": b'step,loss\n1,"0,5"\n2,0.4\n',
            "report.json": b'{"loss": 0.4}',
            "<b>page</b>.html": b"<script>alert(1)</script>",
            "model.pt": OutputFile("model.pt", 5 << 20, "ab" * 32, "it has more than 1 MiB"),
        },
    )
    for attempt in (1, 2):
        for rank in (0, 1):
            began = run.created_at + 100 * attempt
            Rank.create(
                run=run,
                attempt=attempt,
                rank=rank,
                worker=f"local-mlbench-worker-{rank}",
                assignment={},
                assigned_at=began,
                exited_at=began + 50,
                exit_code=3 * rank,
            )
            output = [f"rank {rank} line {number}" for number in range(1, lines + 1)]
            output += [f"\x1b[31mthe needle\x1b[0m of {rank}", *[f"rank {rank} ends"] * 300]
            begins = f"rank {rank} begins <b>here</b> {attempt}\n"
            for name, text in (("stdout", "\n".join(output) + "\n"), ("stderr", begins)):
                where = streams.StreamKey(run_owner(run.id), attempt, rank, name)
                streams.append(where, 0, text.encode())
            streams.close(run.id, attempt, rank, {})
    make_diagnosis(run)
    make_profile(run)
    return run


def record_losses(run: Run, metric: str) -> None:
    """Record 20 values of a loss that falls during the last hour."""
    start = time.time() - 3600
    lines = (line(start + 180 * i, step=i, **{metric: 2 * 0.9**i}) for i in range(20))
    record(run, b"".join(lines))


def record_steps(run: Run, rank: int, seconds: float, count: int) -> None:
    """Record a rank's totals once a second for ``count`` seconds; each step takes ``seconds``."""
    lines = (
        line(run.created_at + 10 + at, step=round(at / seconds), train_seconds=at)
        for at in range(count)
    )
    record(run, b"".join(lines), rank)
