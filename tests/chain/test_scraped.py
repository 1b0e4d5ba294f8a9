"""What Prometheus scrapes from the parts of a running stack."""

import json
import subprocess
from pathlib import Path

import httpx
import pytest

from master.reading.promql import PrometheusClient
from mlbench import ApiClient, names
from mlbench.home import Home
from tests.conftest import wait_for
from tests.stacks import order_steps, run_to_end


def addresses(home: Home, job: str) -> list[str]:
    [group] = json.loads((home.prometheus / "targets" / f"{job}.json").read_text())
    found: list[str] = group["targets"]
    return found


@pytest.fixture
def active(client: ApiClient, stack: Home) -> None:
    """A run that goes on while the test looks, and whose workers tell of its steps."""
    run = order_steps(client, "scraped", steps=6000, rate=100)
    told = f'{names.WORKER_STEPS}{{rank="1",run_id="{run.id}"}}'
    wait_for(lambda: any(told in text for text in read(stack, "workers")), what="it goes on")


def read(home: Home, job: str) -> list[str]:
    return [httpx.get(f"http://{address}/metrics").text for address in addresses(home, job)]


@pytest.mark.usefixtures("active")
def test_the_texts_are_clean(stack: Home, promtool: Path) -> None:
    for job in ("master", "controller", "exporter", "workers"):
        for text in read(stack, job):
            assert "# TYPE" in text
            checked = subprocess.run(
                [promtool, "check", "metrics"],
                input=text,
                text=True,
                capture_output=True,
                check=False,
            )
            assert checked.returncode == 0, f"{job}: {checked.stdout}{checked.stderr}"


@pytest.mark.slow
def test_what_a_worker_sends_is_limited_stated_and_counted(client: ApiClient, stack: Home) -> None:
    if client.get_info().result().value.limits.bandwidth is None:
        pytest.skip("no network namespaces here")
    size = str(256 << 10)
    args = {"operations": "all_reduce", "min_bytes": size, "max_bytes": size, "seconds": "20"}
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

    wait_for(lambda: len(found := sent()) == 2 and min(found) > int(size), what="both send")
    machines = client.get_manifest(run.id).result().value.machines
    assert {machine.bandwidth_limit for machine in machines} == {20}
    client.stop_run(run.id).result()
    run_to_end(client, run)
    wait_for(lambda: sent() == [], what="the networks are gone")


def test_totals_outlive_their_process_and_are_scraped(client: ApiClient, stack: Home) -> None:
    run = order_steps(client, "totals", steps=30, rate=300)
    assert run_to_end(client, run).state == "FINISHED"
    prometheus = PrometheusClient(stack.read_connection().prometheus_url or "")

    def steps() -> list[float]:
        found = prometheus.query(f'{names.WORKER_STEPS}{{run_id="{run.id}"}}')
        return [float(series.values[0]) for series in found]

    finished = f'{names.RUN_STATE}{{run_id="{run.id}",state="FINISHED"}} == 1'
    wait_for(lambda: steps() == [30, 30], what="both ranks' totals are in Prometheus")
    wait_for(lambda: prometheus.query(finished), what="the run's state is in Prometheus")
    wait_for(lambda: not prometheus.query("up == 0"), what="every target is scraped")
    prometheus.close()
