"""What remote write really does, and that our delivery loses nothing to it.

Each trait is shown twice: by plain requests, and by a delivery of the same samples. Where versions
of Prometheus differ, or may, the tests say what each may do.
"""

import math
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from peewee import Database

from mlbench_master.models import run_owner
from mlbench_master.recording.streams import rewind
from tests.conftest import PrometheusServer, free_port
from tests.master.recording.case import Recorder
from tests.support.places import (
    HOUR_MS,
    Place,
    assert_everywhere_once,
    in_prometheus,
    kept,
    points,
    write,
    write_labelled,
)

_TAKES_NO_FUTURE = "this Prometheus refuses samples from the future, as 3.5 does"


@pytest.fixture
def now_ms() -> int:
    """A moment that has just passed."""
    return time.time_ns() // 1_000_000 - 1_000


@pytest.fixture(scope="module")
def plain(
    prometheus_binary: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PrometheusServer]:
    """A Prometheus as it is without our configuration."""
    server = _plain(prometheus_binary, tmp_path_factory.mktemp("plain"))
    yield server
    server.kill()


def _plain(binary: Path, parent: Path) -> PrometheusServer:
    folder = parent / "plain"
    folder.mkdir()
    (folder / "prometheus.yml").write_text("global: {}\n")
    server = PrometheusServer(binary, folder, free_port())
    server.start()
    return server


@pytest.fixture
def both(plain: PrometheusServer, shared_prometheus: PrometheusServer) -> tuple[str, str]:
    """The URLs of a Prometheus as it is, and of one with our configuration."""
    return plain.url, shared_prometheus.url


@pytest.fixture
def ours(database: Database, shared_prometheus: PrometheusServer) -> Iterator[Recorder]:
    """A recorder for the Prometheus with our configuration."""
    recorder = Recorder(shared_prometheus.url)
    yield recorder
    recorder.close()


Both = tuple[str, str]


def test_two_values_in_one_millisecond(both: Both, now_ms: int) -> None:
    for url in both:
        assert write(url, twice=[(now_ms, 1), (now_ms, 2)]).status_code == 204
        assert points(url, "twice") == [(now_ms, "1")], "the second is lost without a word"


def test_later_then_earlier_in_one_request(both: Both, now_ms: int) -> None:
    plain, windowed = both
    for url in both:
        assert write(url, back=[(now_ms, 1.0), (now_ms - 10, 2.0)]).status_code == 204
    assert points(plain, "back") == [(now_ms, "1")], "the earlier is lost without a word"
    assert points(windowed, "back") == [(now_ms - 10, "2"), (now_ms, "1")]


def test_another_value_for_the_newest_time(both: Both, now_ms: int) -> None:
    for url in both:
        write(url, newest=[(now_ms, 1)])
        refused = write(url, ahead=[(now_ms, 1)], newest=[(now_ms, 2)], behind=[(now_ms, 1)])
        assert refused.status_code == 400
        assert points(url, "newest") == [(now_ms, "1")]
        assert points(url, "ahead") == points(url, "behind") == [], "good series go with it"


def test_another_value_than_someone_elses_is_kept(ours: Recorder, now_ms: int) -> None:
    foreign = (ours.labels | {"metric": "a"}, [(now_ms, -1.0)])
    assert write_labelled(ours.url, foreign).status_code == 204
    for i in range(-3, 4):
        ours.record(now_ms + i, ahead=i, a=i, behind=i)
    ours.deliver_all()
    assert kept(ours.run.id) == {Place("a", "0", now_ms * 1000, "0"): 1}
    ours.recorded[Place("a", "0", now_ms * 1000, "-1")] += 1
    assert_everywhere_once(ours.url, ours.run.id, ours.recorded)
    # Our ledger knows nothing of the foreign one, but the count finds it.
    assert ours.count().lost == -1


def test_another_value_for_an_older_time(both: Both, now_ms: int) -> None:
    plain, windowed = both
    for url in both:
        write(url, older=[(now_ms - 5, 1), (now_ms, 1)])
    assert write(plain, older=[(now_ms - 5, 9)], good_a=[(now_ms, 1)]).status_code == 400
    assert points(plain, "good_a") == []
    # With a window it may even replace the first, which was there for good: so none is ever sent.
    assert write(windowed, older=[(now_ms - 5, 9)]).status_code == 204
    assert points(windowed, "older") in (
        [(now_ms - 5, "9"), (now_ms, "1")],
        [(now_ms - 5, "1"), (now_ms, "1")],
    )


def test_an_older_sample_needs_the_window(both: Both, now_ms: int) -> None:
    plain, windowed = both
    for url, status in ((plain, 400), (windowed, 204)):
        write(url, late=[(now_ms, 1)])
        assert write(url, late=[(now_ms - 10, 2)], good_b=[(now_ms, 1)]).status_code == status
    assert points(plain, "late") == [(now_ms, "1")]
    assert points(plain, "good_b") == []
    assert points(windowed, "late") == [(now_ms - 10, "2"), (now_ms, "1")]


def test_older_than_the_window(both: Both, now_ms: int) -> None:
    for url in both:
        write(url, now=[(now_ms, 1)])
        refused = write(url, ancient=[(now_ms - 25 * HOUR_MS, 1)], good_c=[(now_ms, 1)])
        # 2.42 says 500 to what is older than its window, as if it might pass; others 400.
        assert refused.status_code in (400, 500)
        assert points(url, "ancient") == points(url, "good_c") == []


def test_samples_that_it_would_drop_or_refuse_are_kept(ours: Recorder, now_ms: int) -> None:
    for hours in (24 * 365 * 50, 25, 23.1, 22.9, 1):
        ours.record(now_ms - hours * HOUR_MS, old=hours)
    ours.post(-1, old=-1)
    ours.record(now_ms, twice=1, good=1)
    ours.record(now_ms + 0.5, twice=2)
    ours.post(now_ms, twice=3)
    for hours in (2, 30, 24 * 365 * 100):
        ours.record(now_ms + hours * HOUR_MS, ahead=hours, good=hours)
        ours.post(now_ms + hours * HOUR_MS, posted=hours)
    ours.deliver()
    assert ours.sent("old") == ["22.9", "1"]
    assert ours.sent("twice") == ours.sent("good") == ["1"]
    assert ours.sent("ahead") == ours.sent("posted") == []


def test_samples_that_only_prometheus_finds_too_old_are_kept(
    database: Database, own_prometheus: PrometheusServer, now_ms: int
) -> None:
    """Its window ends at the newest sample that it has, which may be from a wrong clock."""
    ours = Recorder(own_prometheus.url)
    if write(ours.url, foreign=[(now_ms + 2 * HOUR_MS, 1)]).status_code == 400:
        ours.close()
        pytest.skip(_TAKES_NO_FUTURE)
    refused = write(ours.url, old=[(now_ms - int(22.5 * HOUR_MS), 1)])
    assert refused.status_code in (400, 500)
    assert "too old" in refused.text
    for i in range(20):
        ours.record(now_ms + i, a=i, b=i)
    for i in range(3):
        ours.record(now_ms - 22.5 * HOUR_MS + i, c=-i, d=-i)
    ours.deliver()
    assert {place.metric for place in kept(ours.run.id)} == {"c", "d"}
    assert [len(ours.sent(metric)) for metric in "abcd"] == [20, 20, 0, 0]
    ours.close()


def test_a_sample_from_the_future(
    prometheus_binary: Path, tmp_path: Path, own_prometheus: PrometheusServer, now_ms: int
) -> None:
    # With a window of a day, more than a day ahead.
    for server, hours in ((_plain(prometheus_binary, tmp_path), 2), (own_prometheus, 30)):
        write(server.url, known=[(now_ms, 1)])
        answer = write(server.url, a=[(now_ms + hours * HOUR_MS, 1)]).status_code
        server.kill()
        if answer == 400:
            pytest.skip(_TAKES_NO_FUTURE)
        assert answer == 204
        server.start()  # which does not help
        for name in ("known", "a", "new"):
            refused = write(server.url, **{name: [(now_ms + 1, 2.0)]})
            assert refused.status_code in (400, 500), "no series' sample of now is taken"
        server.kill()


def test_the_same_again(both: Both, now_ms: int) -> None:
    plain, windowed = both
    for url in both:
        for _ in range(2):
            assert write(url, once=[(now_ms, 1)]).status_code == 204
        assert points(url, "once") == [(now_ms, "1")]
    # More than one sample of a series can be sent again only where there is a window.
    several = [(now_ms - 2, 1.0), (now_ms - 1, math.nan), (now_ms, 3.0)]
    assert [write(plain, several=several).status_code for _ in range(2)] == [204, 400]
    for again in (several, several, *([one] for one in several)):
        assert write(windowed, several=again).status_code == 204
    assert points(windowed, "several") == [(now_ms - 2, "1"), (now_ms - 1, "NaN"), (now_ms, "3")]


def test_a_batch_is_delivered_again(ours: Recorder, now_ms: int) -> None:
    for i in range(50):
        ours.record(now_ms + i / 2, a=i, nan=math.nan, text="x")
        ours.post(now_ms + i, posted=i)
    ours.deliver()
    sent = in_prometheus(ours.url, ours.run.id)
    with ours.delivery.settled(run_owner(ours.run.id)):
        assert rewind(run_owner(ours.run.id))
    ours.deliver()
    assert in_prometheus(ours.url, ours.run.id) == sent


def test_infinities_nan_and_any_text_in_a_label(both: Both, ours: Recorder, now_ms: int) -> None:
    name = 'ü 𝄞 "\\ \n {} \u202e' + "x" * 180
    values = {now_ms - 2: math.nan, now_ms - 1: math.inf, now_ms: -math.inf}
    for url in both:
        labels = {"__name__": "odd", "metric": name}
        assert write_labelled(url, (labels, [*values.items()])).status_code == 204
        assert [value for _, value in points(url, "odd")] == ["NaN", "+Inf", "-Inf"]
    for at, value in values.items():
        ours.record(at, **{name: value})
        ours.post(at, **{f"posted {name}"[:200]: value})
    ours.deliver()
    assert not kept(ours.run.id)
