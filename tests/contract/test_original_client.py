"""The original MLBench client, unmodified: each of its methods against a running master."""

import io
import json
import zipfile
from datetime import UTC, datetime, timedelta
from typing import Any

from mlbench import ApiClient
from tests.contract.conftest import Original
from tests.support.stacks import run_to_end

_BEGIN = datetime(2018, 8, 3, 9, 21, 29, 347960)
_PREC = "val_global_Prec@1 @ 0"
CUSTOM = {"custom_image_name": "local", "custom_image_command": "true"}


def values(entries: list[dict[str, Any]]) -> list[str]:
    return [entry["value"] for entry in entries]


def post_series(original: Original, run_id: int, name: str, count: int) -> None:
    """Post the values 0, 1, 2 and so on, one second apart."""
    for i in range(count):
        date = _BEGIN + timedelta(seconds=i)
        assert original.call("post_metric", run_id, name, i, date=date).status == 201


# --- Metrics. ---


def test_values_come_back_as_they_were_posted(original: Original, ended_run: int) -> None:
    posted = [0.1, 1e-300, 123456789012345678, -2, "", "a text: ünï, 100 %&=+", "True"]
    for i, value in enumerate(posted):
        date = _BEGIN + timedelta(seconds=i)
        answer = original.call("post_metric", ended_run, _PREC, value, date=date)
        assert answer.status == 201
        assert answer.json["name"] == _PREC
        assert answer.json["value"] == str(value)
        assert answer.json["cumulative"] is False

    entries = original.call("get_run_metrics", ended_run).json[_PREC]
    assert values(entries) == [str(value) for value in posted]
    assert entries[0]["date"] == "2018-08-03T09:21:29.347960Z"
    assert entries[1]["date"] == "2018-08-03T09:21:30.347960Z"


def test_metadata_and_dates_of_a_value(original: Original, ended_run: int) -> None:
    metadata = "{rank: 0, epoch:1.5}"
    answer = original.call("post_metric", ended_run, "b", 3, cumulative=True, metadata=metadata)
    assert (answer.status, answer.json["cumulative"], answer.json["metadata"]) == (
        201,
        True,
        metadata,
    )
    [entry] = original.call("get_run_metrics", ended_run).json["b"]
    assert entry["value"] == "3"
    assert entry["cumulative"] is True
    assert entry["metadata"] == metadata
    # A value posted without a date gets the time of the call.
    age = datetime.now(UTC) - datetime.fromisoformat(entry["date"])
    assert timedelta() < age < timedelta(minutes=1)


def test_selections(original: Original, ended_run: int) -> None:
    post_series(original, ended_run, _PREC, 6)
    post_series(original, ended_run, "other", 2)

    def get(**selection: object) -> Any:
        answer = original.call("get_run_metrics", ended_run, **selection)
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "application/json"
        return answer.json

    assert get().keys() == {_PREC, "other"}
    assert get(metric_filter=_PREC).keys() == {_PREC}
    assert get(metric_filter="nothing") == {}
    assert values(get(last_n=2)[_PREC]) == ["4", "5"]
    # `since` excludes the given time.
    assert values(get(since=_BEGIN + timedelta(seconds=3))[_PREC]) == ["4", "5"]
    assert values(get(since=(_BEGIN + timedelta(seconds=3)).replace(tzinfo=UTC))[_PREC]) == [
        "4",
        "5",
    ]
    assert get(since=datetime.now(UTC)) == {}
    assert [float(value) for value in values(get(summarize=3)[_PREC])] == [0.5, 2.5, 4.5]
    last = get(metric_filter=_PREC, since=_BEGIN, summarize=100, last_n=1)
    assert values(last[_PREC]) == ["5"]


def test_pods_and_their_metrics(original: Original, ended_run: int) -> None:
    answer = original.call("get_worker_pods")
    assert answer.status == 200
    names = [pod["name"] for pod in answer.json]
    assert names == ["local-mlbench-worker-0", "local-mlbench-worker-1"]
    assert all({"name", "labels", "phase", "ip"} <= pod.keys() for pod in answer.json)

    post = original.call("get_pod_metrics", names[0], since=_BEGIN, summarize=2)
    assert post.status == 200
    assert all(len(entries) <= 2 for entries in post.json.values())
    everything = original.call("get_all_metrics")
    assert everything.status == 200
    assert everything.json.keys() >= {*names, str(ended_run)}


def test_the_zip_of_a_run_without_a_result(original: Original, ended_run: int) -> None:
    post_series(original, ended_run, "loss", 4)
    answer = original.call("download_run_metrics", ended_run, since=_BEGIN, summarize=2)
    assert answer.status == 200
    assert answer.headers["Content-Disposition"] == 'attachment; filename="metrics_nothing.zip"'
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        results = [name for name in archive.namelist() if not name.startswith("local-")]
        assert results == ["result_loss.json"]
        assert len(json.loads(archive.read("result_loss.json"))) <= 2


# --- Runs. ---


def test_default_arguments_are_accepted(original: Original, client: ApiClient) -> None:
    """The client's default bandwidth means "no limit". Its default of two cores is available."""
    answer = original.call("create_run", "defaults", 1, **CUSTOM)
    assert answer.status == 200, answer.json
    assert answer.json["num_cpus"] == 2
    assert answer.json["max_bandwidth"] is None
    ordered = client.get_run(answer.json["id"]).result().value
    assert run_to_end(client, ordered).state == "FINISHED"
