"""Posted samples: checked, and stored once or not at all."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from peewee import Database

from mlbench.contract.conversion import InvalidFieldsError, convert
from mlbench.contract.limits import MAX_METRIC_TEXT_LENGTH
from mlbench_master.database.models import (
    PostedBody,
    Run,
    Stream,
    added_owner,
    pod_owner,
    run_owner,
)
from mlbench_master.errors import NotFoundError
from mlbench_master.recording import ingest
from mlbench_master.recording.ingest import PostedSample
from mlbench_master.recording.limits import SeriesLimit
from mlbench_master.recording.samples import MAX_METADATA_BYTES, Sample, parse_posted
from mlbench_master.recording.streams import POSTED, read
from mlbench_master.runs import deletion, lifecycle
from tests.support.rows import get_stream, key, make_pod, make_run, post, record

OLD = "2018-08-03T09:21:29.347960Z"
LONGEST = "x" * MAX_METRIC_TEXT_LENGTH


def store(*posted: PostedSample) -> None:
    ingest.store(posted, SeriesLimit(10_000))


def sample(run: Run, **fields: Any) -> PostedSample:
    return convert(PostedSample, {"run_id": run.id, "name": "a", "date": OLD, "value": 1} | fields)


def stored(owner: str) -> list[Sample]:
    stream = Stream.get_or_none(owner=owner, name=POSTED)
    return list(parse_posted(read(stream, 0, stream.size))) if stream else []


def test_the_same_body_adds_nothing(run: Run) -> None:
    # As another client would write it.
    same = sample(run, value="1.0", date="2018-08-03 09:21:29.347960")
    for body in ([sample(run)], [same], [same, same], [sample(run, cumulative=False)]):
        store(*body)
    assert len(stored(run_owner(run.id))) == PostedBody.select().count() == 2


@pytest.mark.both_databases
def test_a_list_for_several_owners(run: Run) -> None:
    other, pod = make_run(), make_pod()
    of_pod = {"run_id": None, "pod_name": pod, "name": "a @ 0"}
    for _ in range(2):
        store(sample(run, name="a @ 0"), sample(other, value=2), sample(run, **of_pod, value=3))
    lists = [stored(owner) for owner in (run_owner(run.id), run_owner(other.id), pod_owner(pod))]
    # A pod's series have no rank.
    points = [(point.metric, point.rank, point.value) for [point] in lists]
    assert points == [("a", "0", 1.0), ("a", "", 2.0), ("a @ 0", "", 3.0)]


@pytest.mark.both_databases
@pytest.mark.parametrize("unknown", [{"run_id": 10**15}, {"run_id": None, "pod_name": "nobody"}])
def test_an_unknown_owner_takes_the_whole_list_with_it(run: Run, unknown: dict[str, Any]) -> None:
    with pytest.raises(NotFoundError):
        store(sample(run), sample(run, **unknown), sample(make_run()))
    assert not Stream.select().exists()
    assert not PostedBody.select().exists()


def test_a_run_with_the_id_of_one_that_ended_has_its_samples(run: Run) -> None:
    Run.update(state="FINISHED", finished_at=1.0).where(Run.id == run.id).execute()
    store(sample(run))
    lifecycle.delete(run)
    while deletion.sweep():
        pass
    later = make_run(id=run.id)
    store(sample(later))
    assert stored(added_owner(run.id)) == []
    assert len(stored(run_owner(run.id))) == 1


@pytest.mark.both_databases
def test_a_deleted_run_accepts_no_samples(run: Run) -> None:
    Run.update(state="FINISHED").where(Run.id == run.id).execute()
    store(sample(run))
    lifecycle.delete(run)
    for _ in range(2):
        with pytest.raises(NotFoundError):
            store(sample(run))
    while deletion.sweep():
        pass
    assert not Stream.select().exists()


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"metadata": "x" * (MAX_METADATA_BYTES - 1)}, f"at most {MAX_METADATA_BYTES} bytes"),
        ({"metadata": 10**30}, "cannot be stored"),
        ({"value": f"{LONGEST}x"}, f"at most {len(LONGEST)} characters"),
        ({"value": "\0"}, "must not contain NUL"),
        ({"value": True}, "a number or a string"),
        ({"name": "a\0"}, "must not contain NUL"),
        ({"name": ""}, "at least 1"),
        ({"name": "x" * 201}, "at most 200"),
        ({"date": "0001-01-01T00:00:00+00:01"}, "years 1 to 9999"),
        ({"date": "9999-12-31T23:59:59-00:01"}, "years 1 to 9999"),
        ({"date": 10**30}, "date"),
        ({"run_id": True}, "run_id"),
        ({"extra": 1}, "extra"),
        ({"run_id": None}, "run_id and pod_name"),
    ],
)
def test_invalid_samples_are_refused(run: Run, fields: dict[str, Any], problem: str) -> None:
    sample(run, metadata="x" * (MAX_METADATA_BYTES - 2), value=LONGEST, name="x" * 200)
    with pytest.raises(InvalidFieldsError, match=problem):
        sample(run, **fields)


SAMPLE = Sample("a", "3", 1_000_001, 0.1, True, {"any": ["JSON"]})


@pytest.mark.both_databases
def test_the_same_body_is_stored_once_for_each_owner(run: Run) -> None:
    owner = run_owner(run.id)
    record(run, b"recorded\n")
    other = SAMPLE._replace(value="text")
    for body in ([SAMPLE], [SAMPLE, other], [SAMPLE], [SAMPLE, other], [SAMPLE, SAMPLE]):
        post(owner, body)
        post("pod/w-0", body)
    # A new list is stored whole: its client may mean another sample that looks alike.
    assert stored(owner) == stored("pod/w-0") == [SAMPLE, SAMPLE, other]
    assert read(get_stream(key(run)), 0, 100) == b"recorded\n"


@pytest.mark.both_databases
def test_threads_that_post_the_same_body_store_it_once(run: Run, database: Database) -> None:
    owner = run_owner(run.id)

    def send(_: int) -> None:
        with database.connection_context():  # this thread's connection
            for i in range(10):
                post(owner, [SAMPLE._replace(time_us=i), SAMPLE])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(send, range(8)))
    dated = [SAMPLE._replace(time_us=i) for i in range(10)]
    assert sorted(stored(owner)) == sorted([*dated, *[SAMPLE] * 10])
