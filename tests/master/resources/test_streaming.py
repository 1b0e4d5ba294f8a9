"""Long answers of a real server: in pieces, and broken off where they cannot be completed."""

import http.client
import json
import random
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from benchmarks.servers import database_url
from mlbench_master.models import Run, Series, open_database, run_owner
from mlbench_master.recording.remote_write import RemoteWriter
from mlbench_master.recording.samples import prometheus_labels
from tests.conftest import USER_TOKEN, PrometheusServer, free_port
from tests.support.rows import make_run, time_series
from tests.support.serving import serve_master

# More than one query reads, and more than sockets hold: 17 MB as JSON.
SAMPLES = 250_000


@contextmanager
def ask(port: int, run: Run, query: str = "") -> Iterator[http.client.HTTPResponse]:
    """Ask for the run's series; as little as possible arrives before it is read."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.sock = socket.socket()
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    connection.sock.connect(("127.0.0.1", port))
    path = f"/api/metrics/{run.id}/?metric_type=run{query}"
    connection.request("GET", path, headers={"Authorization": f"Bearer {USER_TOKEN}"})
    with closing(connection), connection.getresponse() as response:
        yield response


@pytest.fixture
def long_run(own_prometheus: PrometheusServer, tmp_path: Path) -> Iterator[Run]:
    database = open_database(database_url(tmp_path))
    run = make_run()
    first_ms = time.time_ns() // 1_000_000 - SAMPLES
    writer = RemoteWriter(own_prometheus.url)
    dice = random.Random(1)  # noqa: S311 - dice, not secrets
    for start in range(0, SAMPLES, 50_000):
        points = [(first_ms + start + i, dice.random()) for i in range(50_000)]
        writer.send([time_series(prometheus_labels(run_owner(run.id), ("loss", "0")), points)])
    writer.close()
    Series.create(
        owner=run_owner(run.id),
        metric="loss",
        rank="0",
        first_ms=first_ms,
        last_ms=first_ms + SAMPLES - 1,
        samples=SAMPLES,
    )
    yield run
    database.close()


@pytest.mark.slow
def test_a_long_answer_is_whole_and_breaks_off_where_prometheus_does(
    own_prometheus: PrometheusServer, long_run: Run, tmp_path: Path
) -> None:
    port = free_port()
    with ExitStack() as begun:
        begun.enter_context(serve_master(tmp_path, port, own_prometheus.url))
        with ask(port, long_run) as answer:
            assert answer.headers["Transfer-Encoding"] == "chunked"
            [(name, points)] = json.loads(answer.read()).items()
        assert (name, len(points)) == ("loss @ 0", SAMPLES)
        assert len({point["date"] for point in points}) == SAMPLES

        forms = [f"&format={form}" for form in ("json", "csv", "zip")]
        answers = [begun.enter_context(ask(port, long_run, form)) for form in forms]
        own_prometheus.kill()
        for answer in answers:
            assert answer.status == 200
            with pytest.raises(http.client.IncompleteRead):
                answer.read()
        # What fails at once can still say so.
        with ask(port, long_run) as answer:
            assert answer.status == 503
            assert json.loads(answer.read())["status"] == 503
