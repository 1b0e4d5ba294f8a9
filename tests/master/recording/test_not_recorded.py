"""Each run counts missing data once, for every surface; a complete run has no counts."""

import json
import time
from typing import Any

import pytest
from falcon.testing import TestClient

from mlbench.contract.records import NotRecorded
from mlbench_master.database.models import Run
from mlbench_master.recording.indexing import Indexer
from mlbench_master.recording.not_recorded import describe, refuse_bytes
from tests.support.recording import Recording
from tests.support.rows import line, make_ranks, record, reload

pytestmark = pytest.mark.both_databases


def stated(**counts: Any) -> bytes:
    return json.dumps({"time": time.time(), "not_recorded": counts}).encode() + b"\n"


def found(run: Run) -> NotRecorded | None:
    return describe(reload(run))


_UNKNOWN = NotRecorded("1 malformed line", malformed_lines=1)
_MALFORMED = NotRecorded("300 malformed lines", malformed_lines=300)
_UNTIMED = NotRecorded("2 ranks' communication on GPUs", untimed_gpu_ranks=2)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([line(1.0, a=1, text="x")], None),
        ([line(1.0, a=1) + b"no JSON\n" * 150] * 2, _MALFORMED),
        (
            [stated(unread_files=1, refused_calls=2), stated(unread_files=2, unanswered_calls=1)],
            NotRecorded(
                "2 refused client calls, 1 client call that broke off or timed out, "
                "3 event files not read to their end",
                refused_calls=2,
                unanswered_calls=1,
                unread_files=3,
            ),
        ),
        ([stated(untimed_gpu_ranks=1)] * 2, _UNTIMED),
        ([stated(malformed_lines=1)], _UNKNOWN),
        ([stated(unread_files=0)], _UNKNOWN),
        ([stated(unread_files=True)], _UNKNOWN),
        ([stated(unread_files=2**31)], _UNKNOWN),
    ],
)
def test_lines_of_ranks_are_counted(
    run: Run, recording: Recording, lines: list[bytes], expected: NotRecorded | None
) -> None:
    for rank, data in enumerate(lines):
        record(run, data, rank)
        recording.index_all()
    assert found(run) == expected


def test_values_beyond_the_limit_of_series_are_counted(run: Run) -> None:
    indexer = Indexer(most_series=2)
    record(run, line(time.time(), a=1, b=2, c=3, d=4))
    indexer.index_waiting()
    text = "2 values beyond the limit of series"
    assert found(run) == NotRecorded(text, refused_values=2)


def test_refused_bytes_of_a_stream_count_once(run: Run) -> None:
    for size in (3, 7, 5):
        refuse_bytes(run.id, "1/0/metrics", size)
    refuse_bytes(run.id, "1/0/stdout", 2)
    assert found(run) == NotRecorded("9 bytes of lost ranks", refused_bytes=9)


def test_run_and_manifest_agree(api: TestClient, run: Run, recording: Recording) -> None:
    def read() -> list[Any]:
        paths = (f"/api/runs/{run.id}", f"/api/runs/{run.id}/manifest")
        return [api.simulate_get(path).json["not_recorded"] for path in paths]

    make_ranks(run)
    assert read() == [None, None]
    record(run, b"no JSON\n")
    recording.index_all()
    of_run, of_manifest = read()
    assert of_run == of_manifest
    assert (of_run["text"], of_run["malformed_lines"]) == ("1 malformed line", 1)
