"""Calls of the client against a running master, and its compatibility with the original client."""

import inspect
import io
import json
import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest

from mlbench import ApiClient
from mlbench.client import MLBENCH_IMAGES, Sample
from mlbench.contract.distribution import own_version
from mlbench.contract.records import LogMatch, Point, Run, Target
from mlbench.local.network import probe
from tests.support.known import known
from tests.support.results import make_run
from tests.support.scripted import Reply, serving

_IMAGE = list(MLBENCH_IMAGES)[1]
_DATE = "2018-08-03T09:21:29.347000Z"


# --- The signatures of the original client ---


def test_arguments_are_those_of_the_original_client() -> None:
    assert str(inspect.signature(ApiClient)).startswith(
        "(max_workers: int = 5, in_cluster: bool = True, "
        "label_selector: str = 'component=master,app=mlbench', k8s_namespace: str = 'default', "
        "url: str | None = None, load_config: bool = True, *,"
    )


_ORIGINAL_METHODS = """
create_run name num_workers num_cpus max_bandwidth image backend custom_image_name \
    custom_image_command custom_backend run_all_nodes gpu_enabled light_target
delete_run run_id
download_run_metrics run_id since summarize
get_all_metrics
get_pod_metrics pod_id since summarize
get_run run_id
get_run_metrics run_id since summarize metric_filter last_n
get_runs
get_worker_pods
post_metric run_id name value cumulative metadata date
"""


@pytest.mark.parametrize("described", _ORIGINAL_METHODS.strip().splitlines())
def test_methods_have_the_parameters_of_the_original_client(described: str) -> None:
    method, *arguments = described.split()
    parameters = inspect.signature(getattr(ApiClient, method)).parameters.values()
    positional = [part.name for part in parameters if part.kind is part.POSITIONAL_OR_KEYWORD]
    assert positional == ["self", *arguments]


# --- Runs, pods and benchmarks ---


def test_a_run_is_described_in_full(client: ApiClient, finished: Run) -> None:
    assert (finished.name, finished.benchmark, finished.num_workers) == ("finished", "steps", 2)
    assert finished.args == {"steps": "200", "rate": "1000"}
    assert (finished.state, finished.active, finished.reason) == ("FINISHED", False, "")
    assert [(rank.rank, rank.exit_code) for rank in finished.ranks] == [(0, 0), (1, 0)]
    assert finished.created_at <= known(finished.started_at) <= known(finished.finished_at)
    # Each rank records 200 losses and steps, and the totals and steps of two epochs and of the end.
    # Before the first epoch there are no samples.
    assert known(finished.delivery).recorded == 2 * (200 * 2 + 2 * 4 - 1 + 3)
    assert finished.fields["job_id"]
    assert client.get_runs(from_id=finished.id).result().value[0].id == finished.id
    # A response can be used like one of the original client.
    answer = client.get_run(str(finished.id)).result()
    assert (answer.status_code, answer.content[:1]) == (200, b"{")
    assert answer.json() == answer.value.fields
    # These fields change when the run is sealed or other tests post samples.
    later = ("outcome", "archive", "archive_sha256", "disturbed", "contention_share", "added")
    assert answer.json() == {**finished.fields, **{name: answer.json()[name] for name in later}}


def test_the_events_of_a_run(client: ApiClient, finished: Run) -> None:
    found = client.get_run_events(finished.id).result().value
    # Other tests may have added samples.
    events = [event for event in found if event.kind != "added"]
    assert [event.kind for event in events] == ["created", "ready", "started", "finished"]
    assert (events[0].time, events[-1].time) == (finished.created_at, finished.finished_at)
    assert [event.attempt for event in events] == [0, 1, 1, 1]
    assert events[1].text == "2 workers are ready"


def test_pods_and_the_installation_are_described(client: ApiClient, finished: Run) -> None:
    for pod, rank in zip(client.get_worker_pods().result().value, finished.ranks, strict=True):
        assert (pod.name, pod.phase, pod.ip, pod.run_id) == (rank.pod, "Running", "127.0.0.1", None)
        # An agent becomes idle when the master has acknowledged its exit code.
        assert pod.state in {"exited", "idle"}
        assert known(pod.seen_at) > finished.created_at
    info = client.get_info().result().value
    assert (info.version, info.pool, info.workers) == (own_version(), "local", 2)
    assert (info.limits.workers, info.limits.whole_cpus) == (16, True)
    can = probe()
    assert (info.limits.bandwidth is None) == bool(can.no_bandwidth)
    assert info.limits.latency == (not can.no_latency)
    assert info.prometheus_url == info.fields["prometheus"]["url"]
    storage = client.get_storage().result().value
    assert (storage.database.kind, storage.missing_samples) == ("sqlite", 0)


def test_a_request_has_only_the_given_fields() -> None:
    answer = Reply(201, make_run().to_fields())
    with serving(answer) as master, ApiClient(url=master.url) as client:
        client.create_run("a", 4)
        client.create_run("a", 4, 0.5, 100, _IMAGE, "gloo", None, None, None, True, True, True)
        more: Any = {"custom_image_name": "my/image", "custom_image_command": "python train.py"}
        more |= {"custom_backend": "mine", "seed": 0, "working_dir": "/home/me"}
        more |= {"deadline_seconds": 90.5, "max_restarts": 1, "queue": True}
        client.create_run("a", 4, **more, args={"epochs": "3"})
        with pytest.raises(ValueError, match="image and custom_image_name exclude each other"):
            client.create_run("a", 2, image="one", custom_image_name="another")
        with pytest.raises(ValueError, match="backend and custom_backend exclude each other"):
            client.create_run("a", 2, backend="gloo", custom_backend="mine")
    bodies = sorted((asked.body.decode() for asked in master.asked), key=len)
    assert bodies == [
        '{"name": "a", "num_workers": 4, "num_cpus": 2.0, "max_bandwidth": 1000}',
        '{"name": "a", "num_workers": 4, "num_cpus": 0.5, "max_bandwidth": 100, '
        '"image_name": "mlbench/pytorch-cifar10-resnet20-ddp:latest", "backend": "gloo", '
        '"run_all_nodes": true, "gpu_enabled": true, "light_target": true}',
        '{"name": "a", "num_workers": 4, "num_cpus": 2.0, "max_bandwidth": 1000, '
        '"image_name": "custom_image", '
        '"custom_image_name": "my/image", "custom_image_command": "python train.py", '
        '"backend": "custom_backend", "custom_backend": "mine", '
        '"seed": 0, "working_dir": "/home/me", "deadline_seconds": 90.5, '
        '"max_restarts": 1, "queue": true, "args": {"epochs": "3"}}',
    ]


# --- Metrics ---


def test_values_can_be_selected(client: ApiClient, finished: Run) -> None:
    losses = client.get_run_metrics(finished.id, metric_filter="train_loss").result().value
    assert set(losses) == {"train_loss @ 0", "train_loss @ 1"}
    numbers = [point.number for point in losses["train_loss @ 1"]]
    assert numbers == [1 / (1 + step / 100) for step in range(1, 201)]
    last = client.get_run_metrics(finished.id, None, None, "train_loss", 3).result().value
    assert last == {name: points[-3:] for name, points in losses.items()}
    averaged = client.get_run_metrics(finished.id, summarize=10).result().value
    assert len(averaged["train_loss @ 0"]) == 10
    first, values = averaged["train_loss @ 0"][0], losses["train_loss @ 0"][:20]
    assert (first.min, first.max) == (values[-1].value, values[0].value)
    names = ["train_loss @ 0", "epoch @ 1"]
    several = client.get_run_metrics(finished.id, metric_filter=names).result().value
    assert set(several) == set(names)
    moment = losses["train_loss @ 0"][99].date
    for time in (moment, datetime.fromisoformat(moment)):
        earlier = client.get_run_metrics(finished.id, metric_filter="train_loss", until=time)
        assert earlier.result().value["train_loss @ 0"] == losses["train_loss @ 0"][:100]
        later = client.get_run_metrics(finished.id, time, metric_filter="train_loss")
        assert later.result().value["train_loss @ 0"] == losses["train_loss @ 0"][100:]


def test_posted_values_are_returned(client: ApiClient, finished: Run) -> None:
    for minute, value in enumerate((math.nan, math.inf, -math.inf)):
        date = f"2018-08-03T09:{minute:02}:00.000000Z"
        client.post_metric(finished.id, "unusual", value, date=date).result()
    metadata = {"unit": ["a", 2]}
    client.post_metric(finished.id, "described", 0.5, True, metadata, _DATE).result()
    names = ["unusual", "described"]
    metrics = client.get_run_metrics(finished.id, metric_filter=names).result().value
    assert [str(point.number) for point in metrics["unusual"]] == ["nan", "inf", "-inf"]
    described = Point(_DATE, "0.5", cumulative=True, metadata=metadata, added=True)
    assert metrics["described"] == [described]


def test_many_samples_are_sent_in_one_request(client: ApiClient, finished: Run) -> None:
    pod, numbers = finished.ranks[0].pod, range(10_000 - 1)
    dates = (datetime(2018, 8, 3, tzinfo=UTC) + timedelta(seconds=number) for number in numbers)
    samples = [Sample("many", n, date, run_id=finished.id) for n, date in enumerate(dates)]
    answer = client.post_metrics([*samples, Sample("warmth", 41.5, _DATE, pod_name=pod)]).result()
    assert (answer.status_code, answer.value) == (201, 10_000)
    many = client.get_run_metrics(finished.id, metric_filter="many").result().value["many"]
    assert [point.number for point in many] == list(numbers)
    warmth = {"warmth": [Point(_DATE, "41.5")]}
    assert client.get_pod_metrics(pod, metric_filter="warmth").result().value == warmth
    everything = client.get_all_metrics().result().value
    assert everything[pod].items() >= warmth.items()
    assert everything[str(finished.id)]["many"] == many
    some = client.get_all_metrics(metric_filter=["warmth", "none"], until=_DATE).result().value
    assert some[pod] == warmth
    assert client.get_all_metrics(since=_DATE, metric_filter="warmth").result().value[pod] == {}


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        *((0.1, "0.1"), (3, "3"), ("3", '"3"'), (10**400, str(10**400))),
        *((np.float32(0.5), "0.5"), (np.float64(0.1), "0.1")),
        *((float("nan"), '"nan"'), (float("-inf"), '"-inf"')),
    ],
)
def test_a_value_is_sent_as_json(value: float | str, sent: str) -> None:
    assert json.dumps(Sample("m", value).to_fields()["value"], allow_nan=False) == sent


def test_a_sample_is_sent_with_its_time_in_utc_and_without_missing_fields() -> None:
    moment = datetime.fromisoformat(_DATE)
    here = moment.astimezone(timezone(timedelta(hours=5)))
    for date in (_DATE, moment, moment.replace(tzinfo=None), here):
        fields = Sample("m", 1, date, run_id=7).to_fields()
        assert fields == {"name": "m", "value": 1, "date": _DATE, "run_id": 7}
    fields = Sample("m", 1, _DATE, None, "pod-0", True, 0).to_fields()
    of_the_pod = {"pod_name": "pod-0", "cumulative": True, "metadata": 0}
    assert fields == {"name": "m", "value": 1, "date": _DATE, **of_the_pod}


# --- Logs ---


def test_a_log_is_read_forwards_backwards_and_as_a_file(client: ApiClient, finished: Run) -> None:
    whole = client.get_logs(finished.id, rank=1).result().value
    assert whole.text.startswith("step 100 of 200: ")
    assert (whole.rank, whole.stream, whole.complete) == (1, "stdout", True)
    assert (whole.start, whole.offset, whole.size) == (0, len(whole.text), len(whole.text))
    rest = client.get_logs(finished.id, rank=1, offset=10).result().value
    assert (rest.text, rest.start) == (whole.text[10:], 10)
    tail = client.get_logs(finished.id, rank=1, tail=1).result().value
    assert tail.text == whole.text.splitlines(keepends=True)[-1]
    first = client.get_logs(finished.id, rank=1, before=tail.start).result().value
    assert (first.start, first.text + tail.text) == (0, whole.text)
    assert client.get_logs(finished.id, rank=1, stream="stderr").result().value.text == ""
    search = client.search_logs(finished.id, "STEP 200", 1, offset=10).result().value
    assert search.matches == (LogMatch(tail.start, tail.text.rstrip()),)
    file, calls = io.BytesIO(), list[tuple[int, int | None]]()
    log = (finished.id, file, 1)
    written = client.download_log(*log, on_progress=lambda *counts: calls.append(counts))
    assert file.getvalue() == whole.text.encode()
    assert (written, calls[-1]) == (whole.size, (whole.size, whole.size))


# --- Results ---


def test_a_result_and_a_comparison_are_decoded(client: ApiClient, finished: Run) -> None:
    # The loss is 1 / (1 + step / 100), that is 0.5 at step 100.
    criteria: Any = {"target": "train_loss<=0.5", "after_seconds": 3600, "price": 0.5}
    answer = client.get_result(finished.id, **criteria).result()
    result = answer.value
    assert result.to_fields() == answer.json()
    assert result.target == Target("train_loss", 0.5, lower_is_better=True)
    assert 0 < known(result.time_to_target).wall_seconds < known(result.wall_seconds)
    assert known(result.accuracy_after_time).limit_seconds == 3600
    cost = known(result.cost)
    assert cost.total == pytest.approx(cost.worker_seconds / 2)
    compared = client.compare([finished.id], **criteria).result()
    assert compared.value.to_fields() == compared.json()
    assert compared.value.results == (result,)
