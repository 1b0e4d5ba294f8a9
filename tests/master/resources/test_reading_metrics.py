"""``GET /api/metrics``: what is answered, for one pod or run and for all."""

import time
from typing import Any

import pytest
from falcon.testing import TestClient

from master.app import create_app
from master.models import Pod, Run, pod_owner, run_owner
from master.reading.promql import PrometheusClient
from master.recording.delivery import Delivery
from master.recording.remote_write import RemoteWriter
from master.recording.samples import Sample
from master.settings import Settings
from master.times import seconds_to_text, to_text
from tests.conftest import USER_TOKEN, PrometheusServer
from tests.master.making import line, make_pod, make_run, post, record
from tests.master.resources.reading import CPU, OLD, OLD_US, get, get_run, opened, rows, scrape

# --- One pod or run, as JSON. ---


def test_what_was_given_along_with_a_sample_is_answered_before_and_after_delivery(
    api: TestClient, run: Run, delivery: Delivery
) -> None:
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
            {"date": OLD, "value": "0.5", "metadata": 7},
            {
                "date": to_text(now_us + 1),
                "value": "1",
                "cumulative": True,
                "metadata": "some additional data",
            },
            {
                "date": to_text(now_us + 2),
                "value": "2",
                "cumulative": False,
                "metadata": {"k": [1, None]},
            },
            {"date": to_text(now_us + 5_000), "value": "3"},
        ],
        "b @ 0": [{"date": to_text(now_us), "value": "4", "cumulative": False}],
        "text": [{"date": to_text(now_us), "value": 'quo"ted \\ \n ü', "metadata": []}],
    }
    for _ in range(2):
        answer = get_run(api, run)
        assert answer.headers["Content-Type"] == "application/json"
        assert answer.json == expected
        assert list(answer.json) == list(expected)
        newer = get_run(api, run, since=to_text(now_us + 1)).json
        assert [point["value"] for point in newer["a"]] == ["2", "3"]
        delivery.deliver_waiting()


def test_times_of_recorded_samples_do_not_change_by_delivery(
    api: TestClient, run: Run, delivery: Delivery
) -> None:
    start = time.time_ns() // 1_000_000 / 1000
    steps = b"".join(line(start + i * 0.00025, a=i, note=str(i)) for i in range(40))
    record(run, steps + line(start + 7200, a="future") + line(1.0000015, a=7))
    record(run, line(start - 1, a=0), rank=1)
    before = get_run(api, run).json
    assert [len(points) for points in before.values()] == [42, 1, 40]
    delivery.deliver_waiting()
    assert get_run(api, run).json == before


def test_a_name_selects_a_series_or_a_metric(api: TestClient, run: Run, delivery: Delivery) -> None:
    now = time.time()
    for rank in range(11):
        record(run, line(now, loss=rank, losses=1), rank=rank)
    post(run_owner(run.id), [Sample("loss", "", round(now * 1e6), 99.0)])
    for _ in range(2):
        assert list(get_run(api, run, metric_filter="loss @ 1").json) == ["loss @ 1"]
        found = get_run(api, run, metric_filter="loss").json
        assert sorted(found) == sorted(["loss", *(f"loss @ {rank}" for rank in range(11))])
        for unknown in ("los", "loss @ 11", "loss @", ".*", "loss|losses"):
            assert get_run(api, run, metric_filter=unknown).json == {}
        delivery.deliver_waiting()


def test_fewer_points(api: TestClient, run: Run, delivery: Delivery) -> None:
    start = round(time.time(), 3)
    record(run, b"".join(line(start + i, a=i) for i in range(10)))
    delivery.deliver_waiting()
    record(run, b"".join(line(start + i, a=i) for i in range(10, 20)))

    def read(**params: Any) -> list[str]:
        return [point["value"] for point in get_run(api, run, **params).json["a @ 0"]]

    for _ in range(2):
        assert read(summarize=2) == ["4.5", "14.5"]
        assert read(summarize=3) == ["3", "10", "16.5"]
        assert read(summarize=20) == [str(i) for i in range(20)]
        assert read(last_n=3) == ["17", "18", "19"]
        assert read(last_n=12) == [str(i) for i in range(8, 20)]
        assert read(last_n=1, summarize=2) == ["14.5"]
        assert read(summarize=2, since=seconds_to_text(start + 9)) == ["12", "17"]
        delivery.deliver_waiting()


@pytest.mark.parametrize("name", ["summarize", "last_n"])
@pytest.mark.parametrize("owner", ["", "1"])
def test_no_points_at_all_cannot_be_wished_for(api: TestClient, name: str, owner: str) -> None:
    answer = get(api, owner, **{name: 0})
    assert answer.status_code == 400
    assert answer.json["message"].startswith(f"{name}: 1 or more")


@pytest.mark.parametrize("owner", ["", "1"])
@pytest.mark.parametrize("name", ["summarize", "last_n", "format", "metric_type", "since"])
def test_a_wrong_parameter_is_named(api: TestClient, name: str, owner: str) -> None:
    for wrong in ("wrong", "-1", "1.5", "\x00"):
        answer = get(api, owner, **{name: wrong})
        assert answer.status_code == 400
        assert answer.json["message"].startswith(f"{name}: ")


def test_a_run_that_recorded_nothing(api: TestClient, run: Run) -> None:
    assert get_run(api, run).json == {}
    assert opened(get_run(api, run, format="zip")) == {}
    assert rows(get_run(api, run, format="csv")) == [
        ["series", "date", "value", "cumulative", "metadata"]
    ]


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.usefixtures("database")
def test_without_prometheus_there_is_no_half_answer(
    settings: Settings, own_prometheus: PrometheusServer
) -> None:
    writer, prometheus = RemoteWriter(own_prometheus.url), PrometheusClient(own_prometheus.url)
    api = TestClient(
        create_app(settings, prometheus), headers={"Authorization": f"Bearer {USER_TOKEN}"}
    )
    run, waiting = make_run(), make_run()
    record(run, line(time.time(), a=1))
    Delivery(writer).deliver_waiting()
    record(waiting, line(time.time(), a=1))
    own_prometheus.kill()
    for form in ("json", "zip", "csv"):
        for owner in (run.id, ""):
            answer = get(api, owner, metric_type="run", format=form)
            assert (answer.status_code, answer.json["status"]) == (503, 503)
    # What has not reached Prometheus is read all the same.
    assert list(get_run(api, waiting).json) == ["a @ 0"]
    writer.close()
    prometheus.close()


# --- All of them. ---


def test_all_pods(api: TestClient, writer: RemoteWriter, delivery: Delivery) -> None:
    first, second, gone = sorted(make_pod() for _ in range(3))
    now_ms = time.time_ns() // 1_000_000
    scrape(writer, first, now_ms - 1_000, 0.5)
    post(pod_owner(first), [Sample("a", "", now_ms * 1000, 1.0)])
    post(pod_owner(gone), [Sample("a", "", OLD_US, 2.0)])
    Pod.delete_by_id(gone)
    cpu = {"date": to_text((now_ms - 1_000) * 1000), "value": "0.5"}
    expected = {
        first: {"a": [{"date": to_text(now_ms * 1000), "value": "1"}], CPU: [cpu]},
        second: {},
        gone: {"a": [{"date": OLD, "value": "2"}]},
    }
    for _ in range(2):
        assert get(api).json == expected
        assert get(api, metric_filter=CPU).json == {first: {CPU: [cpu]}, second: {}, gone: {}}
        delivery.deliver_waiting()
    assert rows(get(api, format="csv")) == [
        ["pod", "series", "date", "value", "cumulative", "metadata"],
        [first, "a", to_text(now_ms * 1000), "1", "", ""],
        [first, CPU, cpu["date"], "0.5", "", ""],
        [gone, "a", OLD, "2", "", ""],
    ]
    assert set(opened(get(api, format="zip"))) == {
        f"{first}/result_a.json",
        f"{first}/result_{CPU}.json",
        f"{gone}/result_a.json",
    }


def test_no_pods_and_no_runs(api: TestClient) -> None:
    for kind in ("pod", "run"):
        assert get(api, metric_type=kind).json == {}
        assert opened(get(api, metric_type=kind, format="zip")) == {}


def test_all_runs(api: TestClient, delivery: Delivery) -> None:
    first, second = make_run(), make_run()
    post(run_owner(first.id), [Sample("a", "0", OLD_US, 1.0, True, "m")])
    record(second, line(time.time(), b=2))
    for _ in range(2):
        found = get(api, metric_type="run").json
        assert list(found) == [str(first.id), str(second.id)]
        assert found[str(first.id)] == get_run(api, first).json
        assert found[str(second.id)] == get_run(api, second).json
        delivery.deliver_waiting()
    assert rows(get(api, metric_type="run", format="csv"))[:2] == [
        ["run", "series", "date", "value", "cumulative", "metadata"],
        [str(first.id), "a @ 0", OLD, "1", "true", '"m"'],
    ]
    assert set(opened(get(api, metric_type="run", format="zip"))) == {
        f"{first.id}/result_a @ 0.json",
        f"{second.id}/result_b @ 0.json",
    }
