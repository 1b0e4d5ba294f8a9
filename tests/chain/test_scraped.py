"""Series that Prometheus scrapes from the parts of a running stack."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import httpx
import pytest

from mlbench import ApiClient
from mlbench.contract import names
from mlbench.local.home import Home
from mlbench_master.reading.promql import PrometheusClient
from tests.conftest import running_stack, wait_for
from tests.support.exporting import promtool_says
from tests.support.stacks import order_steps, run_to_end


def addresses(home: Home, job: str) -> list[str]:
    groups = json.loads((home.prometheus / "targets" / f"{job}.json").read_text())
    return [address for group in groups for address in group["targets"]]


@pytest.fixture
def active(client: ApiClient, stack: Home) -> Iterator[None]:
    """A run that lasts until the test ends. Its workers report steps."""
    run = order_steps(client, "scraped", steps=60000, rate=100)
    series = f'{names.WORKER_STEPS}{{rank="1",run_id="{run.id}"}}'

    wait_for(
        lambda: any(series in text for text in read(stack, "workers")), what="rank 1 takes steps"
    )
    yield
    client.stop_run(run.id).result()


def read(home: Home, job: str) -> list[str]:
    """Return the metrics of all targets, once ended targets are removed."""
    until = time.monotonic() + 5.0
    while True:
        try:
            return [httpx.get(f"http://{address}/metrics").text for address in addresses(home, job)]
        except httpx.TransportError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


@pytest.mark.usefixtures("active")
def test_promtool_accepts_all_metrics(stack: Home, promtool: Path) -> None:
    for job in ("master", "controller", "exporter", "workers"):
        for text in read(stack, job):
            assert "# TYPE" in text
            assert promtool_says(promtool, text) == "", job


@pytest.mark.slow
def test_the_bandwidth_of_a_worker_is_limited_reported_and_counted(
    client: ApiClient, stack: Home
) -> None:
    if client.get_info().result().value.limits.bandwidth is None:
        pytest.skip("no network namespaces here")
    size = str(256 << 10)
    args = {"operations": "all_reduce", "min_bytes": size, "max_bytes": size, "seconds": "99"}
    benchmark = "communication"
    ordered = client.create_run("sends", 2, None, max_bandwidth=20, benchmark=benchmark, args=args)
    run = ordered.result().value

    def sent() -> list[float]:
        [text] = read(stack, "exporter")
        return [
            float(line.rpartition(" ")[2])
            for line in text.splitlines()
            if line.startswith("container_network_transmit_bytes_total{")
        ]

    wait_for(lambda: len(totals := sent()) == 2 and min(totals) > int(size), what="both ranks send")
    machines = client.get_manifest(run.id).result().value.machines
    assert {machine.bandwidth_limit for machine in machines} == {20}
    client.inject_fault(run.id, "network:3s", rank=1).result()
    readings: list[tuple[float, float]] = []

    def has_been_cut() -> bool:
        readings.append((sent()[1], time.monotonic()))
        same = [[at for _, at in group] for _, group in groupby(readings, key=itemgetter(0))]
        return any(times[-1] - times[0] > 2 for times in same[:-1])

    wait_for(has_been_cut, what="rank 1 sends nothing for three seconds, then resumes")
    events = client.get_run_events(run.id).result().value
    faults = [event.text for event in events if event.kind == "fault"]
    assert faults == ["Fault: network:3s of rank 1, by hand"]
    client.stop_run(run.id).result()
    run_to_end(client, run)
    wait_for(lambda: sent() == [], what="the networks are deleted")


def test_totals_of_ended_processes_are_scraped(client: ApiClient, stack: Home) -> None:
    run = order_steps(client, "totals", steps=30, rate=300)
    assert run_to_end(client, run).state == "FINISHED"
    prometheus = PrometheusClient(stack.read_connection().prometheus_url or "")

    def steps() -> list[float]:
        totals = prometheus.query(f'{names.WORKER_STEPS}{{run_id="{run.id}"}}')
        return [float(series.values[0]) for series in totals]

    finished = f'{names.RUN_STATE}{{run_id="{run.id}",state="FINISHED"}} == 1'
    wait_for(lambda: steps() == [30, 30], what="both ranks' totals are in Prometheus")
    wait_for(lambda: prometheus.query(finished), what="the run's state is in Prometheus")
    wait_for(lambda: not prometheus.query("up == 0"), what="every target is scraped")
    prometheus.close()


@pytest.mark.slow
def test_a_restart_on_other_ports_replaces_all_targets(
    prometheus_binary: Path, tmp_path: Path
) -> None:
    urls, targets = [], []
    with ExitStack() as until_the_end:
        for _ in range(2):
            with running_stack(prometheus_binary, tmp_path / "stack") as home:
                connection = home.read_connection()
                with closing(PrometheusClient(connection.prometheus_url or "")) as prometheus:
                    # Prometheus itself, master, controller, exporter and two workers.
                    wait_for(partial(_are_up, prometheus, 6), what="all parts are scraped")
                    labels = [sorted(target.labels.items()) for target in prometheus.query("up")]
            urls.append(connection.url)
            targets.append(sorted(labels))
            port = int(connection.url.rpartition(":")[2])
            until_the_end.enter_context(socket.create_server(("127.0.0.1", port)))
    assert urls[0] != urls[1]
    assert targets[0] == targets[1]


def _are_up(prometheus: PrometheusClient, count: int) -> bool:
    return len(prometheus.query("up == 1")) >= count
