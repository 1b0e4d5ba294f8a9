"""Evidence for a diagnosis, and profiles, which the agent gathers of a rank on request."""

import json
from dataclasses import asdict
from typing import Any

from mlbench_diagnosis import gather, profiler
from mlbench_worker.agent.attempt import Attempt
from mlbench_worker.agent.master_client import PollResponse


def diagnose(attempt: Attempt, reply: PollResponse) -> bytes:
    """Return the evidence of a rank for a diagnosis."""
    evidence = gather.gather(attempt, attempt.pid, attempt.first_totals, reply.native_rank)
    return _line(evidence)


def record_profile(attempt: Attempt, reply: PollResponse) -> bytes:
    """Return a profile of a rank: a line that describes it, then its file."""
    assert reply.profile is not None
    result, content = profiler.profile(attempt, attempt.pid, reply.profile[1])
    return _line(result) + b"\n" + content


def _line(record: Any) -> bytes:
    return json.dumps(asdict(record), ensure_ascii=False).encode(errors="replace")
