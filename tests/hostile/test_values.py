"""Any JSON value is either refused with its field name, or stored and readable."""

import json
import math
import time
from typing import Any

import pytest
from falcon.testing import TestClient
from peewee import PostgresqlDatabase

from mlbench_master.database.connection import database
from mlbench_master.database.models import Rank, Run
from tests.support.places import nothing_waits
from tests.support.recording import Recording
from tests.support.rows import make_ranks, record

DATE = "2018-08-03T09:21:29Z"

# Values in JSON notation.
NASTY = [
    *("1" * 4_300, "1" * 5_001, '"' + "1" * 5_001 + '"', "18446744073709551617"),
    *(f'"{start}{"0" * 5_000}{end}"' for start, end in (("", "1"), ("-", "1"), ("", ".5"))),
    *("1e400", "-1e400", '"1e400"', "1e-400", "NaN", '"nan"', '"-NAN"', '"Infinity"', "-Infinity"),
    *("true", "null", "[" * 900 + "]" * 900, r'"\ud800"', r'"\u0000"', '""', '"=1+1"'),
    *('"' + "x" * length + '"' for length in (64 << 10, (64 << 10) + 1)),
]
WAYS_TO_READ: list[dict[str, Any]] = [
    *({}, {"format": "csv"}, {"format": "zip"}, {"summarize": 2}, {"last_n": 3}),
    {"since": "0001-01-01", "until": "9999-12-31T23:59:59.999999"},
]


@pytest.mark.both_databases
def test_every_value_is_refused_or_readable(
    api: TestClient, run: Run, recording: Recording
) -> None:
    for i, value in enumerate(NASTY):
        for field in ("value", "metadata"):
            sample = {"run_id": run.id, "name": f"{field}{i}", "date": DATE, "value": 1}
            body = json.dumps(sample | {field: "HERE"}).replace('"HERE"', value)
            answer = api.simulate_post("/api/metrics/", body=body)
            assert answer.status_code in {201, 400}, body[:200]
            if answer.status_code == 400:
                assert answer.json["message"].startswith((field, "body")), answer.json["message"]
    lines = [f'{{"name":"stream{i}","value":{value},"time":1}}' for i, value in enumerate(NASTY)]
    lines += [f'{{"name":"a","value":1,"time":{value}}}' for value in NASTY]
    lines += [f'{{"name":"a","value":1,"time":1,"step":{value}}}' for value in NASTY]
    lines += [f'{{"name":"a","value":1,"time":1,"rank":{value}}}' for value in NASTY]
    record(run, "\n".join(lines).encode() + b"\n")
    assert_readable(api, run)
    recording.run_all()
    assert nothing_waits()
    assert_readable(api, run)


def assert_readable(api: TestClient, run: Run) -> None:
    for wish in WAYS_TO_READ:
        answer = api.simulate_get(f"/api/metrics/{run.id}/", params={"metric_type": "run"} | wish)
        assert answer.status_code == 200, (wish, answer.text[:300])
        assert answer.content
    assert api.simulate_get(f"/api/runs/{run.id}/result/").status_code == 200


@pytest.mark.both_databases
def test_impossible_stored_times_are_shown_as_the_nearest_valid_time(
    api: TestClient, run: Run
) -> None:
    make_ranks(run)
    stored = [-1e300, 1e300, -math.inf, math.inf]
    if isinstance(database.obj, PostgresqlDatabase):  # SQLite stores NULL instead
        stored.append(math.nan)
    for at in stored:
        Rank.update(exit_code=1, exited_at=at, reported_at=at).where(Rank.rank == 0).execute()
        Run.update(started_at=time.time() - 5, target_reached_at=at).execute()
        for path in ("", "events/", "manifest/", "result/"):
            answer = api.simulate_get(f"/api/runs/{run.id}/{path}")
            assert answer.status_code == 200, answer.text
        events = api.simulate_get(f"/api/runs/{run.id}/events/").json
        [moment] = [event["time"] for event in events if event["kind"] == "exited"]
        assert moment in {"0001-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z"}
