"""Prometheus does not accept another agent's series from an agent's port."""

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager

import pytest
import yaml
from prometheus_client import CollectorRegistry, Metric, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from mlbench.contract import names
from mlbench_master.reading.promql import PrometheusClient
from tests.conftest import PrometheusServer, wait_for


class Forged(Collector):
    """Metrics of a process that took an agent's port, with foreign names and timestamps."""

    def __init__(self, labels: Mapping[str, str], series: int = 1) -> None:
        self._labels, self._series = labels, series

    def collect(self) -> Iterator[Metric]:
        """Yield series with names of MLBench and foreign names, more than a day in the future."""
        for name in ("mlbench_worker_time_seconds", names.RUN_STATE, names.RUN_METRIC, "mine"):
            family = GaugeMetricFamily(name, "forged", labels=["n", *self._labels])
            for number in range(self._series):
                ahead = time.time() + 26 * 3600
                family.add_metric([str(number), *self._labels.values()], 1, timestamp=ahead)
            yield family
        for name in ("container_memory_usage_bytes", "node_load1", "ALERTS", "up"):
            yield GaugeMetricFamily(name, "forged", 1e9)


@contextmanager
def serve(collector: Collector) -> Iterator[str]:
    """Serve a collector's metrics and yield the address."""
    registry = CollectorRegistry()
    registry.register(collector)
    server, thread = start_http_server(0, "127.0.0.1", registry)
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.slow
def test_prometheus_accepts_only_own_series_of_an_agent(
    own_prometheus: PrometheusServer,
) -> None:
    config = own_prometheus.folder / "prometheus.yml"
    jobs = yaml.safe_load(config.read_text())["scrape_configs"]
    [job] = [job for job in jobs if job["job_name"] == "workers"]
    del job["file_sd_configs"]
    job |= {"scrape_interval": "1s", "scrape_timeout": "1s"}
    with (
        serve(Forged({"__tmp_own": "x"})) as modest,
        serve(Forged({}, series=5000)) as wild,
        closing(PrometheusClient(own_prometheus.url)) as prometheus,
    ):
        job["static_configs"] = [{"targets": [modest, wild]}]
        config.write_text(yaml.safe_dump({"scrape_configs": [job]}))
        own_prometheus.kill()
        own_prometheus.start()
        of_modest, of_wild = (f'instance="{address}"' for address in (modest, wild))
        wait_for(
            lambda: prometheus.query(f"mine{{{of_modest}}}"), what="a scrape of the small target"
        )
        series = prometheus.query(f'{{__name__=~".+",{of_modest}}}')
        assert {s.labels["__name__"] for s in series if "scrape_" not in s.labels["__name__"]} == {
            *("mine", "mlbench_worker_time_seconds", "up")
        }
        assert all(abs(float(s.times[0]) - time.time()) < 60 for s in series)
        wait_for(
            lambda: prometheus.query(f"up{{{of_wild}}} == 0"),
            what="a refused scrape of the large target",
        )
        assert not prometheus.query(f"mine{{{of_wild}}}")
