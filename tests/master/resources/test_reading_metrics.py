"""``GET /api/metrics/{pod or run}`` as JSON, and refused requests."""

import json
import time
from typing import Any

from falcon.testing import TestClient

from mlbench_master.database.models import Run, run_owner
from mlbench_master.recording.samples import Sample
from mlbench_master.timestamps import seconds_to_text, to_text
from tests.support.reading import OLD, OLD_US, get, get_run, opened, point, rows
from tests.support.recording import Recording
from tests.support.rows import line, make_run, post, record


def test_metadata_survives_the_export(api: TestClient, run: Run, recording: Recording) -> None:
    now_us = time.time_ns() // 1_000_000 * 1000
    samples = [
        Sample("a", "", now_us + 1, 1.0, True, "some additional data"),
        Sample("a", "", now_us + 2, 2.0, False, {"k": [1, None]}),  # the same millisecond
        Sample("a", "", now_us + 5_000, 3.0),
        Sample("a", "", OLD_US, 0.5, None, 7),
        Sample("b", "0", now_us, 4.0, False),
        Sample("text", "", now_us, 'quo"ted \\ \n ü', None, []),
    ]
    post(run_owner(run.id), samples)
    expected = {
        "a": [
            point(OLD_US, "0.5", metadata=7),
            point(now_us + 1, "1", cumulative=True, metadata="some additional data"),
            point(now_us + 2, "2", cumulative=False, metadata={"k": [1, None]}),
            point(now_us + 5_000, "3"),
        ],
        "b @ 0": [point(now_us, "4", cumulative=False)],
        "text": [point(now_us, 'quo"ted \\ \n ü', metadata=[])],
    }
    for _ in range(2):
        answer = get_run(api, run)
        assert answer.headers["Content-Type"] == "application/json"
        assert answer.json == expected
        assert list(answer.json) == list(expected)
        newer = get_run(api, run, since=to_text(now_us + 1)).json
        assert [point["value"] for point in newer["a"]] == ["2", "3"]
        recording.run_all()


def test_metadata_of_lines_is_returned(api: TestClient, run: Run, recording: Recording) -> None:
    at_us = time.time_ns() // 1_000_000 * 1000 + 250
    sample = {"time": at_us / 1e6, "name": "a", "value": "0.5", "metadata": "{rank: 0, epoch:1}"}
    record(run, json.dumps(sample).encode() + b"\n" + line(at_us // 1000 / 1000 + 1, a=1))
    for _ in range(2):
        first, second = get_run(api, run).json["a @ 0"]
        assert (first["value"], first["metadata"]) == ("0.5", sample["metadata"])
        assert first["date"] == to_text(at_us), "timestamps have microseconds"
        assert second == point(at_us // 1000 * 1000 + 10**6, "1")
        recording.run_all()


def test_series_are_selected_by_name(api: TestClient, run: Run, recording: Recording) -> None:
    now = time.time()
    odd = ['a"} or up{x="', "a.c", "a\\d", "Prec@1 (top) +*?[x]^$ #-~&", "line\nend", "größe"]
    record(run, line(now, **dict.fromkeys([*odd, "abc", "a.", "d"], 1)))
    for rank in range(11):
        record(run, line(now, **{"loss": rank, "rate": 1, "a,b": 2}), rank=rank)
    post(run_owner(run.id), [Sample("loss", "", round(now * 1e6), 99.0)])
    for _ in range(2):
        assert list(get_run(api, run, metric_filter="loss @ 1").json) == ["loss @ 1"]
        assert len(get_run(api, run, metric_filter="loss").json) == 12
        series = get_run(api, run, metric_filter=["loss @ 1", "rate @ 1", "other"]).json
        assert list(series) == ["loss @ 1", "rate @ 1"]
        series = get_run(api, run, metric_filter=odd).json
        assert list(series) == sorted(f"{name} @ 0" for name in odd)
        # A comma is part of the name.
        assert len(get_run(api, run, metric_filter="a,b").json) == 11
        assert get_run(api, run, metric_filter="").json == get_run(api, run).json
        for unknown in ("los", "loss @ 11", "loss @", ".*", "loss|rate"):
            assert get_run(api, run, metric_filter=unknown).json == {}
        recording.run_all()


def test_the_metrics_of_a_run_are_listed(api: TestClient, run: Run, recording: Recording) -> None:
    now = time.time()
    record(run, line(now, step=1, loss=0.5, note="text"), rank=1)
    post(run_owner(run.id), [Sample("loss", "", round(now * 1e6), 1.0)])
    recording.run_all()
    metrics = {"loss": False, "note": True, "step": True}
    expected = [{"name": name, "has_ranks": has_ranks} for name, has_ranks in metrics.items()]
    assert api.simulate_get(f"/api/runs/{run.id}/metrics/").json == expected
    assert api.simulate_get(f"/api/runs/{make_run().id}/metrics/").json == []


def test_since_until_and_fewer_points(api: TestClient, run: Run, recording: Recording) -> None:
    start = round(time.time(), 3)
    at = [seconds_to_text(start + i) for i in range(20)]
    record(run, b"".join(line(start + i, a=i) for i in range(10)))
    recording.run_all()
    record(run, b"".join(line(start + i, a=i) for i in range(10, 20)))
    post(run_owner(run.id), [Sample("a", "0", OLD_US, -1.0)])

    def read(**params: Any) -> list[str]:
        return [point["value"] for point in get_run(api, run, **params).json.get("a @ 0", [])]

    for _ in range(2):
        assert read(until=at[2]) == ["-1", "0", "1", "2"]
        assert read(since=at[16]) == ["17", "18", "19"]
        assert read(since=at[0].removesuffix("Z").replace("T", " "), until=at[2]) == ["1", "2"]
        assert read(since=at[2], until=at[2]) == read(until="1815-12-10") == []
        assert read(until=seconds_to_text(start + 2.5), last_n=2) == ["1", "2"]
        assert read(until=OLD) == ["-1"]
        assert read(until="9999-12-31", last_n=10**17)[-1] == "19"
        assert read(summarize=2, since=OLD) == ["4.5", "14.5"]
        assert read(last_n=1, summarize=2, since=OLD) == ["14.5"]
        recording.run_all()


def test_averages_have_min_and_max_in_json(api: TestClient, run: Run) -> None:
    start = round(time.time(), 3)
    values = [1.0, 5.0, float("nan"), 2.0, 8.0]
    record(run, b"".join(line(start + i, a=value) for i, value in enumerate(values)))
    points = get_run(api, run, summarize=3).json["a @ 0"]
    averages = [(point["value"], point.get("min"), point.get("max")) for point in points]
    assert averages == [("3", "1", "5"), ("NaN", "2", "2"), ("8", None, None)]
    header, *_ = rows(get_run(api, run, summarize=3, format="csv"))
    assert header == ["series", "date", "value", "cumulative", "metadata", "added"]
    [file] = opened(get_run(api, run, summarize=3, format="zip")).values()
    assert {key for point in file for key in point} == {"date", "value", "cumulative"}


def test_an_invalid_parameter_is_named(api: TestClient) -> None:
    numbers = ["wrong", "-1", "1.5", "\x00", "0", "٣", "9" * 19]
    wrong = {"summarize": numbers, "last_n": numbers, "metric_filter": ["\x00"]}
    for name in ("format", "metric_type", "since", "until"):
        wrong[name] = ["wrong", "-1", "\x00"]
    for owner in ("", "1"):
        for name, values in wrong.items():
            for value in values:
                answer = get(api, owner, **{name: value})
                assert answer.status_code == 400
                assert answer.json["message"].startswith((f"{name}: ", f"{name}.0: "))


def test_a_header_names_the_source(api: TestClient, run: Run, recording: Recording) -> None:
    now_us = time.time_ns() // 1000
    record(run, line(now_us / 1e6, a=1))
    # Prometheus stores milliseconds.
    for source, at_us in (("record", now_us), ("prometheus", now_us // 1000 * 1000)):
        answer = get_run(api, run)
        assert answer.headers["MLBench-Source"] == source
        assert answer.json["a @ 0"] == [point(at_us, "1")]
        recording.run_all()
    assert get_run(api, run, exact="true").json["a @ 0"] == [point(now_us, "1")]
    for form in ("csv", "zip"):
        assert "MLBench-Source" not in get_run(api, run, format=form).headers
    [_, exact] = rows(get_run(api, run, format="csv"))
    assert exact[1] == to_text(now_us)
