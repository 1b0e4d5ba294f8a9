"""Clients cannot make the master lose workers: agents are heard, and downtime does not count."""

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from benchmarks.stacks import stopped
from mlbench import ApiClient
from mlbench.local.home import Home
from tests.conftest import running_stack, wait_for
from tests.support import silencers
from tests.support.stacks import order_steps, reload, run_to_end, service

pytestmark = pytest.mark.slow

# A worker is lost after this silence, instead of 30 s.
LOST_SECONDS = 6
SILENCE_SECONDS = 8.0
# An idle agent polls every 3 s; the rest is reserve for a busy machine.
LATE_SECONDS = 5.0

_PATCH = f"""
import sys
from dataclasses import replace
if "mlbench_master.controller" in sys.orig_argv:
    import mlbench_master.controller.decisions as decisions
    decisions.POOL_LIMITS = replace(decisions.POOL_LIMITS, silent={LOST_SECONDS})
"""


@pytest.fixture(scope="module")
def impatient(prometheus_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A stack whose controller gives up silent workers early."""
    folder = tmp_path_factory.mktemp("impatient")
    (folder / "sitecustomize.py").write_text(_PATCH)
    with running_stack(prometheus_binary, folder / "home", PYTHONPATH=str(folder)) as home:
        with ApiClient.from_home(home) as client:
            # At its first start, an agent may be delayed by collecting facts about its machine.
            run_to_end(client, order_steps(client, "first", steps=10, rate=100))
        yield home


@pytest.fixture
def client(impatient: Home) -> Iterator[ApiClient]:
    with ApiClient.from_home(impatient) as opened:
        yield opened


@contextmanager
def beside_a_run(client: ApiClient, name: str, seconds: float) -> Iterator[None]:
    """Run the block during a run of at least this duration, which must end as FINISHED."""
    run = order_steps(client, name, steps=round(100 * seconds), rate=100)
    wait_for(lambda: reload(client, run).state == "STARTED", what="the start of the run")
    try:
        yield
    finally:
        ended = run_to_end(client, run)
    assert ended.state == "FINISHED", ended.reason


def test_unfinished_requests_do_not_delay_agents(impatient: Home, client: ApiClient) -> None:
    connection = impatient.read_connection()
    requests = [
        silencers.half_head(),
        silencers.half_body(),
        silencers.half_body(token=connection.token),
        silencers.half_body("/api/workers/local-mlbench-worker-0/poll"),
        silencers.endless_body(connection.token),
        silencers.never_read(connection.url),
    ]
    with (
        beside_a_run(client, "floods", SILENCE_SECONDS + 1),
        silencers.occupied(connection.url, requests * 20),
    ):
        assert silencers.oldest_answer(impatient, SILENCE_SECONDS) < LATE_SECONDS
        assert httpx.get(f"{connection.url}/healthz", timeout=LATE_SECONDS).is_success


def test_reads_from_a_hung_prometheus_do_not_delay_agents(
    impatient: Home, client: ApiClient
) -> None:
    connection = impatient.read_connection()
    ended = order_steps(client, "read", steps=10, rate=100)
    wait_for(lambda: not reload(client, ended).active, what="the end of the run to read")
    path = f"{connection.url}/api/metrics/{ended.id}/?metric_type=run"
    statuses: list[int] = []
    over = threading.Event()

    def read() -> None:
        headers = {"Authorization": f"Bearer {connection.token}"}
        while not over.is_set():
            with suppress(httpx.HTTPError):
                statuses.append(httpx.get(path, headers=headers, timeout=30).status_code)

    readers = [threading.Thread(target=read) for _ in range(24)]
    with beside_a_run(client, "hung", SILENCE_SECONDS + 1):
        with stopped(service(impatient, "--config.file")):
            for reader in readers:
                reader.start()
            oldest = silencers.oldest_answer(impatient, SILENCE_SECONDS)
            probe = httpx.get(f"{connection.url}/healthz", timeout=LATE_SECONDS)
            # Readers do not wait for a Prometheus that is known to hang.
            began = time.monotonic()
            answer = httpx.get(path, headers={"Authorization": f"Bearer {connection.token}"})
            seconds = time.monotonic() - began
            over.set()
        for reader in readers:
            reader.join()
    assert oldest < LATE_SECONDS
    assert probe.is_success
    assert (answer.status_code, answer.headers["MLBench-Source"]) == (200, "record")
    assert len(answer.json()["train_loss @ 0"]) == 10
    assert seconds < LATE_SECONDS
    assert set(statuses) == {200}


def test_silence_while_the_master_is_unreachable_loses_no_worker(
    impatient: Home, client: ApiClient
) -> None:
    with beside_a_run(client, "unheard", 2 * SILENCE_SECONDS + 4):
        with closing(sqlite3.connect(impatient.database, isolation_level=None)) as opened:
            opened.execute("BEGIN IMMEDIATE")
            time.sleep(SILENCE_SECONDS)
            opened.execute("ROLLBACK")
        wait_for(
            lambda: silencers.oldest_answer(impatient, 0.2) < LATE_SECONDS, what="recent heartbeats"
        )
        [worker] = service(impatient, "gunicorn").children()
        with stopped(worker):
            time.sleep(SILENCE_SECONDS)


def test_a_silent_worker_is_lost_while_others_report(impatient: Home, client: ApiClient) -> None:
    run = order_steps(client, "silent", steps=10_000, rate=100)
    wait_for(lambda: reload(client, run).state == "STARTED", what="the start of the run")
    with stopped(service(impatient, "local-mlbench-worker-1")):
        ended = run_to_end(client, run)
    assert ended.state == "FAILED"
    assert "no report from local-mlbench-worker-1 for 8 s" in ended.reason
