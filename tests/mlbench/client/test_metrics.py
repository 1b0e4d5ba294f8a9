"""Calls about metrics: each against the real master."""

import csv
import io
import json
import math
import zipfile
from datetime import UTC, datetime, timedelta, timezone

import pytest

from mlbench import ApiClient
from mlbench.client import ApiError, NoAnswerError, Point, Run, Sample
from tests.mlbench.client.scripted import Reply, serving

_DATE = "2018-08-03T09:21:29.347000Z"


def test_every_value_of_a_run_comes_back(client: ApiClient, finished: Run) -> None:
    answer = client.get_run_metrics(finished.id).result()
    losses = answer.value["train_loss @ 1"]
    assert [point.number for point in losses] == [1 / (1 + step / 100) for step in range(1, 201)]
    dates = [point.date for point in losses]
    assert dates == sorted(dates)
    assert answer.json()["train_loss @ 1"][0] == {"date": dates[0], "value": losses[0].value}


def test_a_part_of_the_values_can_be_asked_for(client: ApiClient, finished: Run) -> None:
    losses = client.get_run_metrics(finished.id, metric_filter="train_loss").result().value
    assert set(losses) == {"train_loss @ 0", "train_loss @ 1"}
    last = client.get_run_metrics(finished.id, None, None, "train_loss", 3).result().value
    assert last == {name: points[-3:] for name, points in losses.items()}
    averaged = client.get_run_metrics(finished.id, summarize=10).result().value
    assert len(averaged["train_loss @ 0"]) == 10
    first, values = averaged["train_loss @ 0"][0], losses["train_loss @ 0"][:20]
    assert (first.minimum, first.maximum) == (values[-1].value, values[0].value)
    names = ["train_loss @ 0", "epoch @ 1"]
    several = client.get_run_metrics(finished.id, metric_filter=names).result().value
    assert set(several) == set(names)
    until = losses["train_loss @ 0"][99].date
    earlier = client.get_run_metrics(finished.id, metric_filter="train_loss", until=until)
    assert earlier.result().value["train_loss @ 0"] == losses["train_loss @ 0"][:100]


@pytest.mark.parametrize(
    "moment",
    [
        lambda text: text,
        datetime.fromisoformat,
        lambda text: datetime.fromisoformat(text).replace(tzinfo=None),
        lambda text: datetime.fromisoformat(text).astimezone(timezone(timedelta(hours=5))),
    ],
)
def test_a_time_is_a_text_or_a_datetime_in_utc_or_any_zone(
    client: ApiClient, finished: Run, moment: object
) -> None:
    assert callable(moment)
    losses = client.get_run_metrics(finished.id, metric_filter="train_loss").result().value
    since = moment(losses["train_loss @ 0"][99].date)
    later = client.get_run_metrics(finished.id, since, metric_filter="train_loss").result().value
    assert later["train_loss @ 0"] == losses["train_loss @ 0"][100:]


def test_a_posted_sample_can_be_read_at_once(client: ApiClient, finished: Run) -> None:
    answer = client.post_metric(finished.id, "note", "a text", date=_DATE).result()
    assert (answer.status_code, answer.value) == (201, Point(_DATE, "a text"))
    found = client.get_run_metrics(finished.id, metric_filter="note").result().value
    assert found == {"note": [Point(_DATE, "a text")]}
    with pytest.raises(ValueError, match="a text"):
        _ = found["note"][0].number


def test_a_sample_without_a_date_is_of_now(client: ApiClient, finished: Run) -> None:
    before = datetime.now(UTC)
    point = client.post_metric(finished.id, "dateless", 1.5).result().value
    assert before <= datetime.fromisoformat(point.date) <= datetime.now(UTC)
    assert point.number == 1.5


def test_values_that_json_cannot_hold_come_back(client: ApiClient, finished: Run) -> None:
    for minute, value in enumerate((math.nan, math.inf, -math.inf)):
        date = f"2018-08-03T09:{minute:02}:00.000000Z"
        client.post_metric(finished.id, "unusual", value, date=date).result()
    series = client.get_run_metrics(finished.id, metric_filter="unusual").result().value
    numbers = [point.number for point in series["unusual"]]
    assert math.isnan(numbers[0])
    assert numbers[1:] == [math.inf, -math.inf]


def test_cumulative_and_metadata_come_back(client: ApiClient, finished: Run) -> None:
    metadata = {"unit": ["a", 2]}
    client.post_metric(finished.id, "described", 0.5, True, metadata, _DATE).result()
    found = client.get_run_metrics(finished.id, metric_filter="described").result().value
    assert found == {"described": [Point(_DATE, "0.5", cumulative=True, metadata=metadata)]}


def test_many_samples_go_in_one_request(client: ApiClient, finished: Run) -> None:
    pod = finished.ranks[0].pod
    began = datetime(2018, 8, 3, tzinfo=UTC)
    samples = [
        Sample("many", number, began + timedelta(seconds=number), run_id=finished.id)
        for number in range(10_000 - 1)
    ]
    answer = client.post_metrics([*samples, Sample("warmth", 41.5, _DATE, pod_name=pod)]).result()
    assert (answer.status_code, answer.value) == (201, 10_000)
    many = client.get_run_metrics(finished.id, metric_filter="many").result().value["many"]
    assert [point.number for point in many] == list(range(10_000 - 1))
    warmth = client.get_pod_metrics(pod, metric_filter="warmth").result().value
    assert warmth == {"warmth": [Point(_DATE, "41.5")]}


def test_of_a_list_with_a_wrong_sample_nothing_is_stored(client: ApiClient, finished: Run) -> None:
    samples = [Sample("half", 1, _DATE, finished.id), Sample("half", 1, "yesterday", finished.id)]
    with pytest.raises(ApiError, match="date"):
        client.post_metrics(samples).result()
    assert client.get_run_metrics(finished.id, metric_filter="half").result().value == {}


def test_the_metrics_of_all_pods(client: ApiClient, finished: Run) -> None:
    pod = finished.ranks[0].pod
    client.post_metrics([Sample("load", 3, _DATE, pod_name=pod)]).result()
    everything = client.get_all_metrics().result().value
    assert everything[pod]["load"] == [Point(_DATE, everything[pod]["load"][0].value)]
    assert everything[pod]["load"][0].number == 3
    some = client.get_all_metrics(metric_filter=["load", "none"], until=_DATE).result().value
    assert some[pod] == {"load": everything[pod]["load"]}
    assert client.get_all_metrics(since=_DATE, metric_filter="load").result().value[pod] == {}


def test_a_run_comes_as_a_zip_file(client: ApiClient, finished: Run) -> None:
    answer = client.download_run_metrics(finished.id).result()
    with zipfile.ZipFile(io.BytesIO(answer.value)) as archive:
        points = json.loads(archive.read("result_train_loss @ 0.json"))
    assert len(points) == 200
    assert answer.content == answer.value


def test_a_download_goes_to_a_file_piece_by_piece(client: ApiClient, finished: Run) -> None:
    file, seen = io.BytesIO(), list[int]()
    size = client.download(
        finished.id,
        file,
        format="csv",
        on_progress=lambda received, total: seen.append(received),
    )
    assert seen == sorted(seen)
    assert seen[-1] == size == len(file.getvalue())
    rows = list(csv.reader(io.StringIO(file.getvalue().decode())))
    assert any("train_loss" in cell for row in rows for cell in row)


def test_a_refused_download_writes_nothing(client: ApiClient) -> None:
    file = io.BytesIO()
    with pytest.raises(ApiError, match="no run 4711"):
        client.download(4711, file)
    assert file.getvalue() == b""


def test_a_download_that_breaks_off_is_an_error() -> None:
    cut = Reply(200, b"PK...", missing_bytes=1000)
    with (
        serving(cut) as master,
        ApiClient(url=master.url) as client,
        pytest.raises(NoAnswerError, match="does not answer"),
    ):
        client.download(1, io.BytesIO())
    assert len(master.asked) == 1, "what was written cannot be taken back"


def test_the_progress_says_how_much_there_is() -> None:
    seen: list[tuple[int, int | None]] = []
    with serving(Reply(200, b"x" * 5000)) as master, ApiClient(url=master.url) as client:
        client.download(1, io.BytesIO(), on_progress=lambda *counts: seen.append(counts))
    assert seen[-1] == (5000, 5000)
