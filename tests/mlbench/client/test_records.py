"""What travels between client and master."""

import json
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest

from mlbench.client import Benchmark, Goal, Info, Point, Run, RunLimits, Sample
from mlbench.client.points import to_series, to_text
from mlbench.records import BandwidthLimit

_RUN = {"id": 1, "name": "a", "state": "STARTED", "reason": "", "num_workers": 2, "attempt": 1}
_RUN |= {"created_at": "", "started_at": None, "finished_at": None, "delivery": None}
_RUN |= {"goal": {"metric": "acc", "value": 97.0, "lower_is_better": False, "new": 1}, "ranks": []}


def test_what_a_later_master_adds_is_passed_over_and_kept() -> None:
    run = Run.from_fields({**_RUN, "num_cpus": 0.5, "image": "my/image", "new": [1]})
    assert run.goal == Goal("acc", 97.0, lower_is_better=False)
    assert (run.num_cpus, run.image, run.benchmark) == (0.5, "my/image", "")
    assert run.fields["new"] == [1]
    assert run.active


def test_what_a_run_waits_for_may_be_left_out() -> None:
    assert Run.from_fields(_RUN).waiting == ""
    assert Run.from_fields({**_RUN, "waiting": "no room"}).waiting == "no room"


def test_an_installation_in_a_cluster_may_limit_bandwidth() -> None:
    limits = {"workers": 8, "cpus": 0.5, "whole_cpus": False, "bandwidth": {"most": 250.0}}
    fields = {"version": "0.1.0", "pool": "kubernetes", "workers": 2, "prometheus": None}
    fields |= {"grafana": {"url": "https://g"}, "limits": {**limits, "gpus": 1}, "new": 1}
    info = Info.from_fields(fields)
    bandwidth = BandwidthLimit(250.0)
    assert info.limits == RunLimits(8, 0.5, whole_cpus=False, bandwidth=bandwidth, gpus=1)
    assert info.limits.can_limit_bandwidth
    assert (info.grafana_url, info.prometheus_url) == ("https://g", None)
    assert info.fields["new"] == 1


def test_a_benchmark_may_have_goals() -> None:
    goal = {"metric": "acc", "value": 97.0, "lower_is_better": False}
    fields = {"name": "a", "description": "", "goal": goal, "light_goal": None}
    found = Benchmark.from_fields(fields)
    assert (found.goal, found.light_goal) == (Goal("acc", 97.0, lower_is_better=False), None)


def test_an_average_has_its_extremes() -> None:
    average = {"date": "d", "value": "2", "min": "1", "max": "3"}
    [point] = to_series({"m": [average]})["m"]
    assert point == Point("d", "2", minimum="1", maximum="3")


def test_points_have_what_was_given_with_them() -> None:
    plain = {"date": "d", "value": "1"}
    described = {**plain, "cumulative": False, "metadata": {"a": 1}, "new": 1}
    assert to_series({"m": [plain, described]}) == {
        "m": [Point("d", "1"), Point("d", "1", cumulative=False, metadata={"a": 1})]
    }


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        (0.1, "0.1"),
        (3, "3"),
        ("3", '"3"'),
        (np.float32(0.5), "0.5"),
        (np.float64(0.1), "0.1"),
        (float("nan"), '"nan"'),
        (float("-inf"), '"-inf"'),
        (10**400, str(10**400)),
    ],
)
def test_a_value_is_sent_as_json(value: float | str, sent: str) -> None:
    assert json.dumps(Sample("m", value).to_fields()["value"], allow_nan=False) == sent


def test_what_was_not_given_is_not_sent() -> None:
    assert Sample("m", 1, "2018", run_id=7).to_fields() == {
        "name": "m",
        "value": 1,
        "date": "2018",
        "run_id": 7,
    }
    assert Sample("m", 1, "2018", None, "pod-0", True, 0).to_fields() == {
        "name": "m",
        "value": 1,
        "date": "2018",
        "pod_name": "pod-0",
        "cumulative": True,
        "metadata": 0,
    }


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2018, 8, 3, 9, 21, 29, 5),
        datetime(2018, 8, 3, 9, 21, 29, 5, tzinfo=UTC),
        datetime(2018, 8, 3, 14, 21, 29, 5, tzinfo=timezone(timedelta(hours=5))),
        "2018-08-03T09:21:29.000005Z",
    ],
)
def test_a_time_is_sent_in_utc(moment: datetime | str) -> None:
    assert to_text(moment) == "2018-08-03T09:21:29.000005Z"
