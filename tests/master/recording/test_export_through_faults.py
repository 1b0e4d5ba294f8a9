"""Export to a Prometheus that fails, drops or refuses: nothing is lost, nothing is doubled."""

import time
from collections import Counter
from collections.abc import Iterator

import pytest
from peewee import Database

from mlbench_master.database.models import Block
from mlbench_master.recording.remote_write import UnavailableError
from tests.conftest import PrometheusServer, wait_for
from tests.master.recording.case import Case
from tests.master.recording.faulty_prometheus import (
    BREAK_OFF,
    CUT,
    HANG,
    NO_HTTP,
    STORE_AND_CUT,
    STORE_AND_FAIL,
    STORE_AND_HANG,
    Fault,
    FaultyPrometheus,
    answers,
    faulty_prometheus,
    series_of,
)
from tests.support.places import (
    HOUR_MS,
    Place,
    in_prometheus,
    in_record,
    nothing_waits,
    write_labelled,
)
from tests.support.recording import Patience
from tests.support.rows import line, record
from tests.support.scripted import Asked


@pytest.fixture
def faulty(shared_prometheus: PrometheusServer) -> Iterator[FaultyPrometheus]:
    with faulty_prometheus(shared_prometheus.url) as faulty:
        yield faulty


@pytest.fixture
def case(
    database: Database, faulty: FaultyPrometheus, shared_prometheus: PrometheusServer
) -> Iterator[Case]:
    case = Case(writes_to=faulty.url, reads_from=shared_prometheus.url)
    yield case
    case.close()


def waiting() -> int:
    """Return the number of blocks that wait for Prometheus."""
    count: int = Block.select().where(Block.exported.is_null()).count()
    return count


def sent_times(requests: list[Asked]) -> dict[tuple[str, ...], list[int]]:
    """Return the times that were sent, by series and in the order of sending."""
    times: dict[tuple[str, ...], list[int]] = {}
    for request in requests:
        for labels, points in series_of(request):
            times.setdefault(tuple(sorted(labels.values())), []).extend(ms for ms, _ in points)
    return times


FAULTS = [answers(429), CUT, STORE_AND_CUT, STORE_AND_FAIL, NO_HTTP, BREAK_OFF]


@pytest.mark.parametrize("fault", FAULTS)
def test_samples_wait_in_order(case: Case, faulty: FaultyPrometheus, fault: Fault) -> None:
    case.record_some()
    case.recording.index_all()
    blocks = waiting()
    case.run_all()
    sound = len(faulty.requests)
    case.record_some()
    faulty.faults += [fault, fault]
    for rounds in (1, 2):
        with pytest.raises(UnavailableError):
            case.recording.run_all()
        assert in_record(case.run.id) == case.recorded, "the record does not wait for Prometheus"
        assert waiting() == rounds * blocks
        case.record_some()  # meanwhile
    case.run_all()

    case.assert_complete()
    failed = sent_times(faulty.requests[sound : sound + 1])
    again_times = sent_times(faulty.requests[sound + 2 :])
    for series, times in failed.items():
        assert again_times[series][: len(times)] == times, "it is not the oldest that is sent"
    accepted = faulty.requests[:sound] + faulty.requests[sound + 2 :]
    for times in sent_times(accepted).values():
        assert times == sorted(set(times)), "out of order, or twice"


@pytest.mark.parametrize("fault", [HANG, STORE_AND_HANG])
def test_a_hanging_request_times_out(
    database: Database, faulty: FaultyPrometheus, shared_prometheus: PrometheusServer, fault: Fault
) -> None:
    case = Case(faulty.url, shared_prometheus.url, timeout_seconds=0.5)
    case.record_some()
    faulty.faults.append(fault)
    with pytest.raises(UnavailableError):
        case.recording.run_all()
    assert in_record(case.run.id) == case.recorded
    case.record_some()
    with case.recording.running(database):
        wait_for(nothing_waits)
    case.assert_complete()
    case.close()


def test_a_fault_in_the_midst_of_a_refusal(case: Case, faulty: FaultyPrometheus) -> None:
    """Halving down to the refused sample takes many requests: each may be the one that fails."""
    now_ms = time.time_ns() // 1_000_000 - 1_000
    write_labelled(faulty.target, (case.labels | {"metric": "a"}, [(now_ms + 3, -1.0)]))
    record(case.run, b"".join(line((now_ms + i) / 1000, a=i, b=i) for i in range(8)))
    for passed in range(5):
        faulty.faults += [None] * passed + [STORE_AND_FAIL if passed % 2 else CUT]
        with pytest.raises(UnavailableError):
            case.recording.run_all()
        assert not faulty.faults
        assert not Block.select().where(Block.exported.is_null(False)).exists()
    case.run_all()
    ours = Counter(Place(m, "0", (now_ms + i) * 1000, str(i)) for i in range(8) for m in "ab")
    theirs = Place("a", "0", (now_ms + 3) * 1000, "-1")
    refused = theirs._replace(value="3")
    assert in_record(case.run.id) == ours
    assert in_record(case.run.id, only=True) == {refused: 1}
    expected = ours - Counter([refused]) + Counter([theirs])
    assert in_prometheus(faulty.target, case.run.id) == expected


@pytest.mark.parametrize(("header", "seconds"), [("7", 7.0), ("100000000", 60.0), ("0", 0.2)])
def test_it_waits_for_the_time_in_retry_after(
    case: Case, faulty: FaultyPrometheus, header: str, seconds: float
) -> None:
    case.record_some()
    case.recording.index_all()
    faulty.faults += [answers(429, "later", Retry_After=header), answers(500)]
    stop = Patience(times=3)
    case.recording.exporter.run(stop, stop, lambda: None, idle_seconds=0.1)
    # Without a request to wait, it waits twice as long each time, at most 5 s.
    assert stop.waits == [0.1, seconds, min(2 * seconds, 5.0), 0.1]
    case.run_all()
    case.assert_complete()


# --- What Prometheus drops, refuses or takes only once is in the record. ---


def test_samples_that_it_would_drop_or_refuse_are_in_the_record(case: Case) -> None:
    now_ms = time.time_ns() // 1_000_000 - 1_000
    for hours in (24 * 365 * 50, 25, 23.1, 22.9, 1):
        case.record(now_ms - hours * HOUR_MS, old=hours)
    case.post(-1, old=-1)
    case.record(now_ms, twice=1, good=1)
    case.record(now_ms + 0.5, twice=2)
    case.post(now_ms, twice=3)
    for hours in (2, 30, 24 * 365 * 100):
        case.record(now_ms + hours * HOUR_MS, ahead=hours, good=hours)
        case.post(now_ms + hours * HOUR_MS, posted=hours)
    case.run_and_check()
    assert case.sent("old") == ["22.9", "1"]
    assert case.sent("twice") == case.sent("good") == ["1"]
    assert case.sent("ahead") == case.sent("posted") == []


def test_samples_that_only_prometheus_finds_too_old_are_in_the_record(
    database: Database, own_prometheus: PrometheusServer
) -> None:
    """Its window ends at the newest sample that it has, which may be from a wrong clock."""
    case, now_ms = Case(own_prometheus.url), time.time_ns() // 1_000_000 - 1_000
    ahead = ({"__name__": "foreign"}, [(now_ms + 2 * HOUR_MS, 1.0)])
    if write_labelled(case.url, ahead).status_code == 400:
        case.close()
        pytest.skip("this Prometheus refuses samples from the future, as 3.5 does")
    old = ({"__name__": "old"}, [(now_ms - int(22.5 * HOUR_MS), 1.0)])
    refused = write_labelled(case.url, old)
    assert refused.status_code in (400, 500)
    assert "too old" in refused.text
    for i in range(20):
        case.record(now_ms + i, a=i, b=i)
    for i in range(3):
        case.record(now_ms - 22.5 * HOUR_MS + i, c=-i, d=-i)
    case.run_and_check()
    assert {place.metric for place in in_record(case.run.id, only=True)} == {"c", "d"}
    assert [len(case.sent(metric)) for metric in "abcd"] == [20, 20, 0, 0]
    case.close()
