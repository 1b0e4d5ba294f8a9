"""Posted samples: checked, stored once, and read as they were given, before and after delivery."""

import itertools
import json
import math
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import falcon
import pytest
from falcon.testing import TestClient
from peewee import Database
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


def store(posted: list[PostedSample]) -> None:
    posting.store(posted, SeriesLimit(10_000))


def sample(run: Run, **fields: Any) -> PostedSample:
    return PostedSample.model_validate(
        {"run_id": run.id, "name": "a", "date": OLD, "value": 1} | fields
    )


def stored(owner: str) -> list[Sample]:
    """Return the samples of an owner's stream."""
    stream = Stream.get_or_none(owner=owner, name=POSTED)
    return list(parse_posted(read(stream, 0, stream.size))) if stream else []


def now_text() -> str:
    return to_text(time.time_ns() // 1000)


class Api:
    """The API, for one run."""

    def __init__(self, client: TestClient, run: Run, delivery: Delivery) -> None:
        self._client = client
        self.run = run
        self._delivery = delivery

    def post(self, body: object) -> Any:
        # Not json=...: its encoder refuses NaN.
        return self._client.simulate_post("/api/metrics/", body=json.dumps(body))

    def read(self) -> dict[str, list[dict[str, Any]]]:
        answer = self._client.simulate_get(
            f"/api/metrics/{self.run.id}/",
            params={"metric_type": "run", "since": "0001-01-01T00:00:00+01:00"},
        )
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


# --- Once. ---


@pytest.mark.both_databases
def test_the_same_body_adds_nothing(run: Run) -> None:
    for _ in range(3):
        store([sample(run, value=0.5, cumulative=True, metadata={"k": [1]})])
    found = [Sample("a", "", 1_533_288_089_347_960, 0.5, True, {"k": [1]})]
    assert stored(run_owner(run.id)) == found
    assert PostedBody.select().count() == 1


def test_an_object_and_a_list_of_it_are_the_same_body(here: Api) -> None:
    one = {"run_id": here.run.id, "name": "a", "date": OLD, "value": 1}
    # As another client would spell it.
    same = {"value": "1.0", "date": "2018-08-03 09:21:29.347960", "name": "a"}
    for body in (one, [one], same | {"run_id": here.run.id}, [one, one]):
        assert here.post(body).status_code == 201
    assert len(here.read_before_and_after()["a"]) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"value": 2},
        {"value": "text"},
        {"date": "2018-08-03T09:21:29.347961Z"},
        {"name": "b"},
        {"name": "a @ 0"},
        {"cumulative": False},
        {"cumulative": True},
        {"metadata": "m"},
        {"metadata": 0},
    ],
)
def test_any_difference_is_a_second_sample(run: Run, other: dict[str, Any]) -> None:
    for _ in range(2):
        store([sample(run)])
        store([sample(run, **other)])
    assert len(stored(run_owner(run.id))) == 2


@pytest.mark.both_databases
def test_threads_that_post_the_same_body_store_it_once(run: Run, database: Database) -> None:
    bodies = [[sample(run, value=i, name=f"m{j}") for j in range(i + 1)] for i in range(5)]

    def send(start: int) -> None:
        for body in itertools.islice(itertools.cycle(bodies), start, start + len(bodies)):
            store(body)
        database.close()  # this thread's connection

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(send, range(8)))
    found = stored(run_owner(run.id))
    assert len(found) == len(set(map(str, found))) == 1 + 2 + 3 + 4 + 5


@pytest.mark.both_databases
def test_a_list_for_several_owners(run: Run) -> None:
    other, pod = make_run(), make_pod()
    body = [sample(run), sample(other, value=2), sample(run, run_id=None, pod_name=pod, value=3)]
    for _ in range(2):
        store(body)
    owners = (run_owner(run.id), run_owner(other.id), pod_owner(pod))
    assert [[one.value for one in stored(owner)] for owner in owners] == [[1.0], [2.0], [3.0]]


# --- All or nothing. ---


@pytest.mark.both_databases
@pytest.mark.parametrize("unknown", [{"run_id": 10**15}, {"run_id": None, "pod_name": "nobody"}])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_unknown_owner_takes_the_whole_list_with_it(
    run: Run, unknown: dict[str, Any], place: int
) -> None:
    body = [sample(run), sample(make_run())]
    body.insert(place, sample(run, **unknown))
    with pytest.raises(falcon.HTTPNotFound):
        store(body)
    assert not Stream.select().exists()
    assert not PostedBody.select().exists()


@pytest.mark.both_databases
def test_a_run_that_is_deleted_takes_no_more(run: Run) -> None:
    Run.update(state="FINISHED").where(Run.id == run.id).execute()
    store([sample(run)])
    runs.delete(run)
    for _ in range(2):
        with pytest.raises(falcon.HTTPNotFound):
            store([sample(run)])
    while sweeping.sweep():
        pass
    assert not Stream.select().exists()


def test_a_wrong_entry_takes_the_whole_list_with_it(here: Api) -> None:
    good = {"run_id": here.run.id, "name": "a", "date": OLD, "value": 1}
    answer = here.post([good, good | {"value": None}])
    assert answer.status_code == 400
    assert "value" in answer.json["message"]
    assert not Stream.select().exists()


# --- Anything. ---


@pytest.mark.parametrize(
    ("date", "read"),
    [
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z"),
        ("1969-12-31T23:59:59.999999Z", "1969-12-31T23:59:59.999999Z"),
        ("2018-08-03 09:21:29.347960", OLD),
        ("2018-08-03T11:21:29.347960+02:00", OLD),
        ("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z"),
    ],
)
def test_any_date_to_the_microsecond(here: Api, date: str, read: str) -> None:
    body = {"run_id": here.run.id, "name": "a", "value": 1}
    assert here.post(body | {"date": date}).status_code == 201
    assert [point["date"] for point in here.read_before_and_after()["a"]] == [read]


def test_microseconds_of_what_prometheus_holds(here: Api, prometheus: PrometheusClient) -> None:
    start_us = time.time_ns() // 1_000_000 * 1000 - 1_000_000
    times = [start_us + i * 1000 + micros for i, micros in enumerate([0, 1, 500, 999])]
    times.append(times[-1] - 1)  # a second one in its millisecond
    body = {"run_id": here.run.id, "name": "a"}
    for value, time_us in enumerate(times):
        assert here.post(body | {"value": value, "date": to_text(time_us)}).status_code == 201
    found = here.read_before_and_after()["a"]
    assert [(point["date"], point["value"]) for point in found] == [
        (to_text(time_us), str(value))
        for time_us, value in sorted(zip(times, range(5), strict=True))
    ]
    assert count(prometheus, here.run.id) == Counted(5, 4, 1)


VALUES: list[tuple[object, str]] = [
    (1, "1"),
    (-0.25, "-0.25"),
    ("0.188236813", "0.188236813"),
    (0.30000000000000004, "0.30000000000000004"),
    (1e300, "1e+300"),
    (math.nan, "NaN"),
    (math.inf, "+Inf"),
    ("-inf", "-Inf"),
    (2**53 + 1, str(2**53 + 1)),
    (-(2**63) - 1, str(-(2**63) - 1)),
    (10**25 + 1, str(10**25 + 1)),
    ("1" + "0" * 400, "1" + "0" * 400),
    ("1e400", "1e400"),
    ("", ""),
    ("ü 𝄞 \n\r\t\u2028 \\ \"'", "ü 𝄞 \n\r\t\u2028 \\ \"'"),
    (" 1", " 1"),
    ("1_000", "1_000"),
    ("x" * MAX_TEXT_LENGTH, "x" * MAX_TEXT_LENGTH),
]


@pytest.mark.both_databases
def test_any_value_is_read_as_it_was_given(here: Api) -> None:
    for date in (OLD, now_text()):
        body = [
            {"run_id": here.run.id, "name": f"m{i}", "date": date, "value": value}
            for i, (value, _) in enumerate(VALUES)
        ]
        assert here.post(body).status_code == 201
    found = here.read_before_and_after()
    for i, (_, text) in enumerate(VALUES):
        assert [point["value"] for point in found[f"m{i}"]] == [text, text]


@pytest.mark.parametrize(("value", "text"), [one for one in VALUES if isinstance(one[0], int)])
def test_a_number_alone_is_read_as_it_was_given(here: Api, value: int, text: str) -> None:
    """Without what makes the master read JSON in a slower way, which knows larger numbers."""
    body = {"run_id": here.run.id, "name": "a", "date": OLD, "value": value}
    assert here.post(body).status_code == 201
    assert [point["value"] for point in here.read_before_and_after()["a"]] == [text]


METADATA = [{}, [], "", 0, 1.5, False, "m", {"k": {"ü\n\0": [None, True, 2**63 - 1]}}, [[[[]]]]]


@pytest.mark.both_databases
def test_any_metadata_and_cumulative_come_back(here: Api, prometheus: PrometheusClient) -> None:
    """Both with what Prometheus takes, and with what is kept."""
    given = list(itertools.product([None, False, True], [None, *METADATA]))
    for date in (OLD, now_text()):
        for i, (cumulative, metadata) in enumerate(given):
            extra = {"cumulative": cumulative, "metadata": metadata}
            body = {"run_id": here.run.id, "name": f"m{i}", "date": date, "value": i}
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
        ({"metadata": "x" * MAX_METADATA_BYTES}, f"at most {MAX_METADATA_BYTES} bytes"),
        ({"metadata": 10**30}, "cannot be stored"),
        ({"value": "x" * (MAX_TEXT_LENGTH + 1)}, f"at most {MAX_TEXT_LENGTH} characters"),
        ({"value": "\0"}, "without NUL"),
        ({"value": True}, "a number or a text"),
        ({"value": []}, "a number or a text"),
        ({"name": "a\0"}, "pattern"),
        ({"name": ""}, "at least 1"),
        ({"name": "x" * 201}, "at most 200"),
        ({"date": "0001-01-01T00:00:00+00:01"}, "years 1 to 9999"),
        ({"date": "9999-12-31T23:59:59-00:01"}, "years 1 to 9999"),
        ({"pod_name": "both"}, "run_id and pod_name"),
        ({"run_id": None}, "run_id and pod_name"),
    ],
)
def test_what_cannot_be_stored_is_refused(run: Run, fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        sample(run, **fields)


def test_the_largest_metadata_is_taken(run: Run) -> None:
    metadata = "x" * (MAX_METADATA_BYTES - 2)
    store([sample(run, metadata=metadata)])
    assert stored(run_owner(run.id))[0].metadata == metadata


def test_a_pods_names_have_no_rank(run: Run) -> None:
    pod = make_pod()
    store([sample(run, run_id=None, pod_name=pod, name="a @ 0"), sample(run, name="a @ 0")])
    assert [(one.metric, one.rank) for one in stored(pod_owner(pod))] == [("a @ 0", "")]
    assert [(one.metric, one.rank) for one in stored(run_owner(run.id))] == [("a", "0")]
