"""Rates of the API: posts of single samples, recording until Prometheus has them, reads, results.

Figures are end to end: posts are read back, streams are asked for until Prometheus has all.
"""

import io
import itertools
import json
import re
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import falcon
from falcon import Request, Response
from peewee import chunked

from benchmarks import servers
from benchmarks.load import Requests, post_json, send
from benchmarks.measure import Figure, Measure, alternate
from benchmarks.servers import Master, Source, measured_master
from benchmarks.stored import append, line, metric_lines, store_indexed, store_run
from mlbench.contract import names
from mlbench_master.database.models import Run, open_database
from mlbench_master.reading.counting import count
from mlbench_master.reading.promql import PrometheusClient
from mlbench_master.recording.remote_write import RemoteWriter
from tests.support.recording import Recording

CLIENTS = 8
CREATED = 201
_POSTS_OF_A_CLIENT = 250
_DATE = "%Y-%m-%dT%H:%M:%S.%fZ"

Body = Mapping[str, object]


def post_rate(folder: Path) -> list[Figure]:
    """Return posts a second."""
    port = servers.free_port()
    empty = servers.gunicorn(port, "benchmarks.api:empty_app()")
    with (
        servers.running("empty", empty, folder, {}, f"http://127.0.0.1:{port}/"),
        measured_master(folder) as master,
    ):
        requests = _requests("/", _bodies(1, 4 * _POSTS_OF_A_CLIENT), {})
        measures = {
            "POST /api/metrics/, 8 clients, one sample each": posts(master, _POSTS_OF_A_CLIENT),
            "an empty Falcon POST, 8 clients": lambda: send(port, requests, CREATED),
        }
        return alternate(5, "posts/s", measures)


def posts(master: Master, of_a_client: int, *, lists: bool = False) -> Measure:
    """Return a measure of samples per second posted to a new run and checked by GET.

    Each client posts this number of samples, one per request. With ``lists``, a single client posts
    all of them, 1,000 per request.
    """
    numbers = itertools.count(1)

    def measure_once() -> float:
        run_id = store_run(f"post-rate-{next(numbers)}").id
        clients = _bodies(run_id, of_a_client)
        payloads: list[Sequence[object]] = [*clients]
        if lists:
            payloads = [[*chunked(itertools.chain(*clients), 1000)]]
        rate = send(master.port, _requests("/api/metrics/", payloads, master.headers), CREATED)
        answer = master.get(f"/api/metrics/{run_id}/?metric_type=run").body
        stored = {
            (name, point["date"], float(point["value"]))
            for name, points in json.loads(answer).items()
            for point in points
        }
        bodies = itertools.chain(*clients)
        posted = {(body["name"], body["date"], float(str(body["value"]))) for body in bodies}
        assert stored == posted, (len(stored), len(posted), sorted(stored ^ posted)[:4])
        return rate * 1000 if lists else rate

    return measure_once


def _bodies(run_id: int, number: int) -> list[list[Body]]:
    """Return samples by client, all different: each client has its own metric.

    Dates go up to just now, two milliseconds and some microseconds apart. All fields that MLBench's
    own client sends are there.
    """
    start = datetime.now(UTC) - number * timedelta(milliseconds=2)
    return [
        [
            {
                "run_id": run_id,
                "name": f"train_loss @ {client}",
                "date": (start + timedelta(microseconds=2003 * i + client)).strftime(_DATE),
                "value": str(client + i / number),
                "cumulative": False,
                "metadata": "",
            }
            for i in range(number)
        ]
        for client in range(CLIENTS)
    ]


def _requests(
    path: str, clients: Sequence[Sequence[object]], headers: Mapping[str, str]
) -> list[Requests]:
    return [[post_json(path, body, headers) for body in client] for client in clients]


def empty_app() -> falcon.App[Request, Response]:
    """Return an app that takes a POST and does nothing: the upper limit of an API with gunicorn."""

    def take(req: Request, resp: Response, **_: object) -> None:
        req.bounded_stream.read()
        resp.status = falcon.HTTP_CREATED

    app = falcon.App()
    app.add_sink(take)
    return app


_RECORDED_LINES = 50_000
_LOGGED = ("train_loss", "learning_rate", "grad_norm")
# The step is a further series.
_RECORDED = _RECORDED_LINES * (len(_LOGGED) + 1)


def recording_rate(folder: Path) -> list[Figure]:
    """Return samples a second, end to end."""
    database = open_database(servers.database_url(folder))
    with servers.running_prometheus(folder) as url:
        prometheus, recording = PrometheusClient(url), Recording.to(RemoteWriter(url))
        numbers = itertools.count(1)

        def measure_once() -> float:
            run = store_run(f"rate-{next(numbers)}", "STARTED")
            start = time.time() - _RECORDED_LINES / 1000  # a line a millisecond until just now
            lines = [
                line(start + i / 1000, dict.fromkeys(_LOGGED, i / _RECORDED_LINES), step=i)
                for i in range(_RECORDED_LINES)
            ]
            begin = time.perf_counter()
            append(run, 0, lines)
            recording.run_all()
            counted = count(prometheus, run)
            seconds = time.perf_counter() - begin
            assert counted.in_prometheus == counted.recorded == _RECORDED, counted
            return _RECORDED / seconds

        name = "stream to Prometheus, until a query finds all"
        figures = alternate(5, "samples/s", {name: measure_once})
        prometheus.close()
    database.close()
    return figures


SERIES = 20
SAMPLES = 100_000
# A run of eight minutes.
_INTERVAL_SECONDS = 0.1


def read_rate(folder: Path) -> list[Figure]:
    """Return milliseconds until the last byte."""
    with measured_master(folder) as master:
        path = f"/api/metrics/{store_long_run().id}/?metric_type=run&format="
        measures = {
            f"GET a run's 100,000 samples: {format_}": reading(master, path + format_)
            for format_ in ("json", "zip", "csv")
        }
        return alternate(7, "ms", measures)


def store_long_run() -> Run:
    """Return a run whose 100,000 samples a running controller has indexed."""
    lines = metric_lines(SERIES, SAMPLES // SERIES, _INTERVAL_SECONDS)
    return store_indexed(store_run("read-rate"), lines)


def reading(source: Source, path: str, *, is_result: bool = False) -> Measure:
    """Return what measures milliseconds until the last byte, and finds every sample in them.

    Or the training time, in an answer that is a result.
    """

    def measure_once() -> float:
        body = (answer := source.get(path)).body
        is_whole = b'"training_seconds"' in body if is_result else _samples(body, path) == SAMPLES
        assert is_whole, (path, body[:1000])
        return answer.seconds * 1000

    return measure_once


def _samples(body: bytes, path: str) -> int:
    """Return how many samples an answer has: to parse millions would take gigabytes."""
    if path.endswith("zip"):
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            return sum(archive.read(name).count(b'"date"') for name in archive.namelist())
    return len(body.splitlines()) - 1 if path.endswith("csv") else body.count(b'"date"')


# Series, samples of each, and seconds between them.
_LONG = (10, 400_000, 0.01)
_SHORT = (100, 10_000, 0.1)
_LARGE_SAMPLES = _LONG[0] * _LONG[1] + _SHORT[0] * _SHORT[1]
_ROUNDS = 2
_MB = 1_000_000

# Writing 5 resets the peak memory of the process: proc(5).
_FORGET_PEAK = "5"


def read_memory(folder: Path) -> Iterator[Figure]:
    """Yield MB above idle, seconds until the first byte, and MB a second."""
    with measured_master(folder) as master:
        lines = (metric_lines(*series) for series in (_LONG, _SHORT))
        run = store_indexed(store_run("read-memory"), *lines)
        idle_mb = _memory_mb(master, "VmRSS")
        for reply, path in (
            ("a run, json", f"/api/metrics/{run.id}/?metric_type=run"),
            ("a run, zip", f"/api/metrics/{run.id}/?metric_type=run&format=zip"),
            ("all runs, json", "/api/metrics/?metric_type=run"),
        ):
            rounds = []
            for _ in range(_ROUNDS):
                Path(f"/proc/{master.worker}/clear_refs").write_text(_FORGET_PEAK)
                download = master.get(path)
                peak_mb = _memory_mb(master, "VmHWM")
                assert _samples(download.body, path) == _LARGE_SAMPLES, path
                speed = len(download.body) / _MB / download.seconds
                rounds.append((peak_mb, download.first_byte_seconds, speed))
            peaks_mb, first_bytes, speeds = zip(*rounds, strict=True)
            answer = f"GET 5 million samples, {reply}"
            yield Figure(f"{answer}: memory above idle", "MB", [mb - idle_mb for mb in peaks_mb])
            yield Figure(f"{answer}: first byte", "s", first_bytes)
            yield Figure(f"{answer}: speed", "MB/s", speeds)


def _memory_mb(master: Master, field: str) -> float:
    status = Path(f"/proc/{master.worker}/status").read_text()
    kilobytes = re.search(rf"^{field}:\s*(\d+) kB$", status, re.MULTILINE)
    assert kilobytes, status
    return int(kilobytes[1]) * 1024 / _MB


_EPOCHS = 100
_RANKS = 2
_LONG_STEPS = 10_000
_SHORT_STEPS = 50
_SMALL_RUNS = 15
_STEP_SECONDS = 0.005


def result_rate(folder: Path) -> list[Figure]:
    """Return milliseconds until the last byte."""
    with measured_master(folder) as master:
        large = _store_epochs("large", _LONG_STEPS)
        small = [_store_epochs(f"small-{i}", _SHORT_STEPS) for i in range(_SMALL_RUNS)]
        ids = ",".join(str(run.id) for run in small)
        result_of = f"result of a run of {_RANKS} ranks and {_EPOCHS} epochs of"
        paths = {
            f"{result_of} {_LONG_STEPS:,} steps": f"/api/runs/{large.id}/result/",
            f"{result_of} {_SHORT_STEPS} steps": f"/api/runs/{small[0].id}/result/",
            f"{_SMALL_RUNS} such runs compared": f"/api/compare/?runs={ids}",
        }
        measures = {name: reading(master, path, is_result=True) for name, path in paths.items()}
        return alternate(7, "ms", measures)


def _store_epochs(name: str, steps: int) -> Run:
    """Return a run of 100 epochs, whose samples a running controller has indexed."""
    seconds = _EPOCHS * steps * _STEP_SECONDS
    run = store_run(name, num_workers=_RANKS, seconds=seconds)
    begin = time.time() - seconds
    return store_indexed(run, *(_epoch_lines(begin, steps) for _ in range(_RANKS)))


def _epoch_lines(started_at: float, steps: int) -> Iterator[bytes]:
    """Yield what a rank records: a loss a step; accuracy and totals an epoch."""
    target = {"metric": names.VAL_ACCURACY, "value": 90.0}
    yield line(started_at, {}, target=target)
    for number in range(_EPOCHS * steps):
        moment = started_at + number * _STEP_SECONDS
        yield line(moment, {names.TRAIN_LOSS: 1 / (1 + number)})
        if (number + 1) % steps == 0:
            epoch = number // steps
            phases = {names.phase_metric(phase): 0.1 * (epoch + 1) for phase in names.PHASES}
            totals = {names.SAMPLES: 64 * number, names.TRAIN_SECONDS: 0.9 * (moment - started_at)}
            score = {names.VAL_ACCURACY: 95.0 * (1 - 0.9**epoch), names.EPOCH: epoch}
            yield line(moment + _STEP_SECONDS / 2, score | totals | phases)
