"""Posted samples: checked, stored once, and read as they were given, before and after delivery."""

import itertools
import json
import math
import time
from typing import Any

import falcon
import pytest
from falcon.testing import TestClient
from pydantic import ValidationError

from master import runs, sweeping
from master.models import PostedBody, Run, Stream, pod_owner, run_owner
from master.reading.counting import Counted, count
from master.reading.promql import PrometheusClient
from master.recording import posting
from master.recording.delivery import Delivery
from master.recording.limits import SeriesLimit
from master.recording.posting import MAX_METADATA_BYTES, PostedSample
from master.recording.samples import MAX_TEXT_LENGTH, Sample, parse_posted
from master.recording.streams import POSTED, read
from master.times import to_text
from tests.master.making import make_pod, make_run
from tests.master.recording.places import nothing_waits

OLD = "2018-08-03T09:21:29.347960Z"


def store(*posted: PostedSample) -> None:
    posting.store(posted, SeriesLimit(10_000))


def sample(run: Run, **fields: Any) -> PostedSample:
    return PostedSample.model_validate(
        {"run_id": run.id, "name": "a", "date": OLD, "value": 1} | fields
    )


def stored(owner: str) -> list[Sample]:
    """Return the samples of an owner's stream."""
    stream = Stream.get_or_none(owner=owner, name=POSTED)
    return list(parse_posted(read(stream, 0, stream.size))) if stream else []


class Api:
    """The API, for one run."""

    def __init__(self, client: TestClient, run: Run, delivery: Delivery) -> None:
        self._client = client
        self.run = run
        self._delivery = delivery

    def post(self, *samples: dict[str, Any]) -> Any:
        """Post samples, as a list if there are several."""
        owned = [{"run_id": self.run.id, "name": "a", "date": OLD} | one for one in samples]
        # Not json=...: its encoder refuses NaN.
        body = json.dumps(owned[0] if len(owned) == 1 else owned)
        return self._client.simulate_post("/api/metrics/", body=body)

    def read(self) -> dict[str, list[dict[str, Any]]]:
        params = {"metric_type": "run", "since": "0001-01-01T00:00:00+01:00"}
        answer = self._client.simulate_get(f"/api/metrics/{self.run.id}/", params=params)
        assert answer.status_code == 200, answer.text
        found: dict[str, list[dict[str, Any]]] = answer.json
        return found

    def read_before_and_after(self) -> dict[str, list[dict[str, Any]]]:
        """Return what is read, and make sure that delivery changes nothing in it."""
        before = self.read()
        while self._delivery.deliver_waiting():
            pass
        assert nothing_waits()
        assert self.read() == before
        return before


@pytest.fixture
def here(api: TestClient, run: Run, delivery: Delivery) -> Api:
    return Api(api, run, delivery)


@pytest.mark.both_databases
@pytest.mark.parametrize(
    "other",
    [
        {"value": 2},
        {"date": "2018-08-03T09:21:29.347961Z"},
        {"name": "a @ 0"},
        {"cumulative": False},
        {"metadata": 0},
    ],
)
def test_the_same_body_adds_nothing_and_any_difference_does(
    run: Run, other: dict[str, Any]
) -> None:
    # As another client would write it.
    same = sample(run, value="1.0", date="2018-08-03 09:21:29.347960")
    for _ in range(2):
        store(sample(run))
        store(same)
        store(same, same)
        store(sample(run, **other))
    assert len(stored(run_owner(run.id))) == PostedBody.select().count() == 2


@pytest.mark.both_databases
def test_a_list_for_several_owners(run: Run) -> None:
    other, pod = make_run(), make_pod()
    of_pod = {"run_id": None, "pod_name": pod, "name": "a @ 0"}
    for _ in range(2):
        store(sample(run, name="a @ 0"), sample(other, value=2), sample(run, **of_pod, value=3))
    found = [stored(owner) for owner in (run_owner(run.id), run_owner(other.id), pod_owner(pod))]
    # A pod's series have no rank.
    assert [[one[:2] for one in some] for some in found] == [
        [("a", "0")],
        [("a", "")],
        [("a @ 0", "")],
    ]
    assert [[one.value for one in some] for some in found] == [[1.0], [2.0], [3.0]]


@pytest.mark.both_databases
@pytest.mark.parametrize("unknown", [{"run_id": 10**15}, {"run_id": None, "pod_name": "nobody"}])
def test_an_unknown_owner_takes_the_whole_list_with_it(run: Run, unknown: dict[str, Any]) -> None:
    with pytest.raises(falcon.HTTPNotFound):
        store(sample(run), sample(run, **unknown), sample(make_run()))
    assert not Stream.select().exists()
    assert not PostedBody.select().exists()


def test_a_wrong_entry_takes_the_whole_list_with_it(here: Api) -> None:
    answer = here.post({"value": 1}, {"value": None})
    assert answer.status_code == 400
    assert "value" in answer.json["message"]
    assert not Stream.select().exists()


@pytest.mark.both_databases
def test_a_run_that_is_deleted_takes_no_more(run: Run) -> None:
    Run.update(state="FINISHED").where(Run.id == run.id).execute()
    store(sample(run))
    runs.delete(run)
    for _ in range(2):
        with pytest.raises(falcon.HTTPNotFound):
            store(sample(run))
    while sweeping.sweep():
        pass
    assert not Stream.select().exists()


def test_microseconds_of_samples_in_prometheus(here: Api, prometheus: PrometheusClient) -> None:
    start_us = time.time_ns() // 1_000_000 * 1000 - 1_000_000
    times = [start_us + i * 1000 + micros for i, micros in enumerate([0, 1, 500, 999])]
    times.append(times[-1] - 1)  # a second one in its millisecond
    for value, time_us in enumerate(times):
        assert here.post({"value": value, "date": to_text(time_us)}).status_code == 201
    found = here.read_before_and_after()["a"]
    assert [(point["date"], point["value"]) for point in found] == [
        (to_text(time_us), str(value))
        for time_us, value in sorted(zip(times, range(5), strict=True))
    ]
    assert count(prometheus, here.run.id) == Counted(5, 4, 1)


VALUES: list[tuple[object, str]] = [
    (-0.25, "-0.25"),
    (0.30000000000000004, "0.30000000000000004"),
    (1e300, "1e+300"),
    (math.nan, "NaN"),
    ("-inf", "-Inf"),
    (10**25 + 1, str(10**25 + 1)),
    ("1e400", "1e400"),
    ("", ""),
    ("ü 𝄞 \n\r\t\u2028 \\ \"'", "ü 𝄞 \n\r\t\u2028 \\ \"'"),
    ("1_000", "1_000"),
    ("x" * MAX_TEXT_LENGTH, "x" * MAX_TEXT_LENGTH),
]


@pytest.mark.both_databases
def test_any_value_is_read_as_it_was_given(here: Api) -> None:
    for date in (OLD, to_text(time.time_ns() // 1000)):
        posted = [
            {"name": f"m{i}", "date": date, "value": value} for i, (value, _) in enumerate(VALUES)
        ]
        assert here.post(*posted).status_code == 201
    # Alone, as the others make the master read JSON in a slower way that knows larger numbers.
    assert here.post({"name": "alone", "value": 2**53 + 1}).status_code == 201
    found = here.read_before_and_after()
    assert [point["value"] for point in found["alone"]] == [str(2**53 + 1)]
    for i, (_, text) in enumerate(VALUES):
        assert [point["value"] for point in found[f"m{i}"]] == [text, text]


METADATA: list[object] = [
    None,
    {},
    [],
    "",
    0,
    1.5,
    False,
    {"k": {"ü\n\0": [None, True, 2**63 - 1]}},
    [[[[]]]],
]


@pytest.mark.both_databases
def test_any_metadata_and_cumulative_come_back(here: Api, prometheus: PrometheusClient) -> None:
    """Both with samples in Prometheus, and with kept ones."""
    given = list(itertools.product([None, False, True], METADATA))
    for date in (OLD, to_text(time.time_ns() // 1000)):
        for i, (cumulative, metadata) in enumerate(given):
            extra = {"cumulative": cumulative, "metadata": metadata}
            body = {"name": f"m{i}", "date": date, "value": i}
            body |= {key: value for key, value in extra.items() if value is not None}
            assert here.post(body).status_code == 201
    found = here.read_before_and_after()
    for i, (cumulative, metadata) in enumerate(given):
        for point in found[f"m{i}"]:
            assert point["value"] == str(i)
            assert (point.get("cumulative"), point.get("metadata")) == (cumulative, metadata)
            assert ("cumulative" in point) == (cumulative is not None)
            assert ("metadata" in point) == (metadata is not None)
    assert count(prometheus, here.run.id) == Counted(2 * len(given), len(given), len(given))


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"metadata": "x" * (MAX_METADATA_BYTES - 1)}, f"at most {MAX_METADATA_BYTES} bytes"),
        ({"metadata": 10**30}, "cannot be stored"),
        ({"value": "x" * (MAX_TEXT_LENGTH + 1)}, f"at most {MAX_TEXT_LENGTH} characters"),
        ({"value": "\0"}, "without NUL"),
        ({"value": True}, "a number or a text"),
        ({"name": "a\0"}, "pattern"),
        ({"name": ""}, "at least 1"),
        ({"name": "x" * 201}, "at most 200"),
        ({"date": "0001-01-01T00:00:00+00:01"}, "years 1 to 9999"),
        ({"date": "9999-12-31T23:59:59-00:01"}, "years 1 to 9999"),
        ({"pod_name": "both"}, "run_id and pod_name"),
        ({"run_id": None}, "run_id and pod_name"),
    ],
)
def test_samples_that_cannot_be_stored_are_refused(
    run: Run, fields: dict[str, Any], problem: str
) -> None:
    sample(run, metadata="x" * (MAX_METADATA_BYTES - 2))
    with pytest.raises(ValidationError, match=problem):
        sample(run, **fields)
