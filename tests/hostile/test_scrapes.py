"""What a training process publishes for scraping can say nothing in the name of another."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry, Metric, generate_latest, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from mlbench import names
from mlbench_master.reading.promql import PrometheusClient
from mlbench_worker.agent.attempt import Attempt
from mlbench_worker.agent.scraped import WorkerCollector
from tests.conftest import PrometheusServer, free_port, wait_for
from tests.worker.agent.test_attempt import ASSIGNMENT

_PUBLISHING = (sys.executable, str(Path(__file__).with_name("publishing.py")))
_FORGED = 1e9
_RANK = {names.ENV_RUN_ID: "7", names.ENV_RANK: "1"}


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    return Attempt.create(tmp_path, ASSIGNMENT)


@pytest.fixture
def registry(attempt: Attempt) -> CollectorRegistry:
    collector = WorkerCollector("w-3")
    collector.show(attempt)
    registry = CollectorRegistry()
    registry.register(collector)
    return registry


def run_python(attempt: Attempt, code: str) -> None:
    """Run a process as the attempt's rank would."""
    environ = {**os.environ, **_RANK, names.ENV_MULTIPROC_DIR: str(attempt.counters)}
    subprocess.run([sys.executable, "-c", code], env=environ, check=True)


_OWN_TOTALS = """
from mlbench.totals import Totals
Totals("7", "1").publish(3, 30, {"forward": 1.5})
Totals("8", "1").publish(9, 90, {"forward": 9.5})
"""
_MANY = """
from prometheus_client import Gauge
many = Gauge("many", "", ["n"], multiprocess_mode="max")
for n in range(%d):
    many.labels(str(n)).set(n)
"""


def test_what_is_published_in_the_names_of_others_and_what_is_no_file_are_left_out(
    registry: CollectorRegistry, attempt: Attempt, caplog: pytest.LogCaptureFixture
) -> None:
    run_python(attempt, "from tests.hostile.publishing import publish; publish()")
    began = time.monotonic()
    forged = {s.name for family in registry.collect() for s in family.samples if s.value == _FORGED}
    assert forged == {"of_the_user"}
    text = generate_latest(registry).decode()
    assert time.monotonic() - began < 1, "a named pipe keeps no one waiting"
    assert "2000000" not in text
    assert 'pod="forged"' not in text
    assert caplog.text.count("series of run-7-") == 1


def test_a_million_series_leave_the_agents_own_and_the_processs_totals(
    registry: CollectorRegistry, attempt: Attempt
) -> None:
    run_python(attempt, _OWN_TOTALS + _MANY % 20_000)
    # Ten times as large as what is read; a million need minutes to be written.
    large = attempt.counters / "gauge_max_99.db"
    [written] = attempt.counters.glob("gauge_max_*.db")
    large.write_bytes((200 << 20).to_bytes(4, "little") + written.read_bytes()[4:])
    os.truncate(large, 201 << 20)
    began = time.monotonic()
    text = generate_latest(registry).decode()
    assert time.monotonic() - began < 2
    assert 'mlbench_worker_running{rank="1",run_id="7"} 1.0' in text
    assert 'mlbench_worker_steps_total{rank="1",run_id="7"} 3.0' in text
    assert 'run_id="8"' not in text, "another run's"
    assert len(text.splitlines()) < 2500


def test_files_of_nonsense_hide_nothing(registry: CollectorRegistry, attempt: Attempt) -> None:
    run_python(attempt, _OWN_TOTALS)
    for used, byte in product([0, 3, 100, 2**31 - 1, 2**32 - 1], [b"\x00", b"\xff", b"{"]):
        for kind in ("counter", "gauge_max", "gauge_nonsense", "histogram", "summary"):
            path = attempt.counters / f"{kind}_1.db"
            path.write_bytes(used.to_bytes(4, "little") + byte * 5000)
        text = generate_latest(registry).decode()
        assert 'mlbench_worker_steps_total{rank="1",run_id="7"} 3.0' in text, (used, byte)


def test_without_the_folder_the_agent_still_tells_of_itself(
    registry: CollectorRegistry, attempt: Attempt
) -> None:
    attempt.counters.rmdir()
    assert "mlbench_worker_running" in generate_latest(registry).decode()


# --- Prometheus refuses the same, whoever answers in the agent's place. ---


class Forged(Collector):
    """What a process that took the agent's port would say: other names, other times."""

    def __init__(self, labels: Mapping[str, str], series: int = 1) -> None:
        self._labels, self._series = labels, series

    def collect(self) -> Iterator[Metric]:
        """Yield series of ours and of others, a day ahead of now."""
        for name in ("mlbench_worker_time_seconds", names.RUN_STATE, names.RUN_METRIC, "mine"):
            family = GaugeMetricFamily(name, "forged", labels=["n", *self._labels])
            for number in range(self._series):
                ahead = time.time() + 26 * 3600
                family.add_metric([str(number), *self._labels.values()], 1, timestamp=ahead)
            yield family
        for name in ("container_memory_usage_bytes", "node_load1", "ALERTS", "up"):
            yield GaugeMetricFamily(name, "forged", _FORGED)


@pytest.mark.slow
def test_prometheus_takes_of_an_agent_only_what_is_its_own(
    prometheus_binary: Path, tmp_path: Path
) -> None:
    servers = [serve(Forged({"__tmp_own": "x"})), serve(Forged({}, series=5000))]
    config = yaml.safe_load(
        (Path(__file__).parents[2] / "prometheus" / "prometheus.yml").read_text()
    )
    [job] = [job for job in config["scrape_configs"] if job["job_name"] == "workers"]
    del job["file_sd_configs"]
    job["static_configs"] = [{"targets": [f"127.0.0.1:{port}" for port, _ in servers]}]
    job |= {"scrape_interval": "1s", "scrape_timeout": "1s"}
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump({"scrape_configs": [job]}))
    server = PrometheusServer(prometheus_binary, tmp_path, free_port())
    server.start()
    prometheus = PrometheusClient(server.url)
    modest, wild = (f'instance="127.0.0.1:{port}"' for port, _ in servers)
    wait_for(lambda: prometheus.query(f"mine{{{modest}}}"), what="the modest one is scraped")
    series = prometheus.query(f'{{__name__=~".+",{modest}}}')
    assert {s.labels["__name__"] for s in series if "scrape_" not in s.labels["__name__"]} == {
        *("mine", "mlbench_worker_time_seconds", "up")
    }
    assert all(abs(float(s.times[0]) - time.time()) < 60 for s in series)
    wait_for(lambda: prometheus.query(f"up{{{wild}}} == 0"), what="the wild one is refused")
    assert not prometheus.query(f"mine{{{wild}}}")
    prometheus.close()
    server.kill()
    for _, stop in servers:
        stop()


def serve(collector: Collector) -> tuple[int, Any]:
    registry = CollectorRegistry()
    registry.register(collector)
    server, thread = start_http_server(0, "127.0.0.1", registry)

    def stop() -> None:
        server.shutdown()
        thread.join()
        server.server_close()

    return server.server_port, stop
