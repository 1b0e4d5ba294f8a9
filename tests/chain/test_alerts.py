"""The alerts of a real stack. promtool tests the times of its rules; here they are shorter."""

import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from benchmarks.servers import running
from mlbench import ApiClient
from mlbench.contract import names
from mlbench.contract.records import Run
from mlbench.local.home import Home
from mlbench_master.reading.promql import PrometheusClient
from tests.conftest import free_port, running_stack, wait_for
from tests.support.debian import alertmanager, program
from tests.support.known import known
from tests.support.scripted import Reply, Scripted, answering
from tests.support.stacks import losses, order_command, order_steps, shorten_rules, training

pytestmark = pytest.mark.slow

_NAN_AND_STRAGGLER = (sys.executable, str(Path(__file__).with_name("nan_and_straggler.py")))
_EVALUATION_SECONDS = 5

_ROOT = Path(__file__).parents[2]
_SERIES = re.compile(r"\b(?:run\w*:)?(?:mlbench|container|machine|prometheus|process)_[\w:]+")
# Series of pods with a memory limit or a GPU, which this stack does not have.
_ABSENT_SERIES = {
    "container_spec_memory_limit_bytes",
    "mlbench_gpu_utilization_ratio",
    "run_rank_pod:mlbench_gpu_utilization_ratio:avg",
}


@pytest.fixture(scope="module")
def alertmanager_port() -> int:
    """The port at which the stack's Prometheus looks for an Alertmanager, which may not run."""
    return free_port()


@pytest.fixture(scope="module")
def stack(
    prometheus_binary: Path, tmp_path_factory: pytest.TempPathFactory, alertmanager_port: int
) -> Iterator[Home]:
    """A stack whose Prometheus has shorter times in its rules."""
    url = f"http://127.0.0.1:{alertmanager_port}/am"
    root = tmp_path_factory.mktemp("alerts")
    labels = "cluster=lab"
    with running_stack(
        prometheus_binary, root, MLBENCH_ALERTMANAGERS=url, MLBENCH_EXTERNAL_LABELS=labels
    ) as home:
        shorten_rules(home)
        yield home


class RunAlerts:
    """Prometheus's alerts and values of one run."""

    def __init__(self, home: Home, run: Run) -> None:
        self._url = home.read_connection().prometheus_url or ""
        self._run_id = str(run.id)

    def find(self, alertname: str) -> list[dict[str, Any]]:
        """Return the pending and firing alerts with this name."""
        answer = httpx.get(f"{self._url}/api/v1/alerts", timeout=10).raise_for_status().json()
        labels = {"alertname": alertname, "run_id": self._run_id}
        return [
            alert for alert in answer["data"]["alerts"] if labels.items() <= alert["labels"].items()
        ]

    def firing_ranks(self, alertname: str) -> list[str]:
        """Return the ranks for which an alert fires."""
        alerts = self.find(alertname)
        return sorted(alert["labels"]["rank"] for alert in alerts if alert["state"] == "firing")

    def values(self, selector: str) -> dict[str, float]:
        """Return the values of a PromQL expression by rank. RUN is the run's label matcher."""
        with closing(PrometheusClient(self._url)) as client:
            results = client.query(selector.replace("RUN", f'run_id="{self._run_id}"'))
        return {series.labels["rank"]: float(series.values[0]) for series in results}


@pytest.fixture
def receiver(alertmanager_port: int, tmp_path: Path) -> Iterator[Scripted]:
    """The receiver of an Alertmanager that has the configuration of the documentation."""
    path = _ROOT / "examples" / "alertmanager.yml"
    amtool = Path(program("prometheus-alertmanager")).with_name("amtool")
    subprocess.run([amtool, "check-config", path], check=True)
    example = yaml.safe_load(path.read_text())
    with answering(lambda request: Reply()) as receiver:
        hook = {"url": f"{receiver.url}/hook"}
        example["receivers"] = [
            {"name": entry["name"], "webhook_configs": [hook]} for entry in example["receivers"]
        ]
        (tmp_path / "alertmanager.yml").write_text(yaml.safe_dump(example))
        command = (
            *alertmanager(),
            "--cluster.listen-address=",
            f"--config.file={tmp_path}/alertmanager.yml",
            f"--storage.path={tmp_path}",
            f"--web.listen-address=127.0.0.1:{alertmanager_port}",
            "--web.route-prefix=/am",
        )
        with running("alertmanager", command, tmp_path, {}):
            yield receiver


def test_a_stalled_rank_is_named_to_a_receiver_while_its_agent_responds(
    client: ApiClient, stack: Home, receiver: Scripted
) -> None:
    run = order_steps(client, "stalled", steps=100_000, rate=20)
    alerts = RunAlerts(stack, run)
    progress = "run_rank:mlbench_worker_progress:age_seconds{RUN} < 10"
    wait_for(lambda: alerts.values(progress).keys() == {"0", "1"}, what="both ranks make progress")
    # An agent shows a run's counters before its fork server has imported PyTorch.
    wait_for(lambda: losses(client, run, rank=1), what="rank 1 trains")
    [victim] = training(stack, rank=1)
    victim.suspend()
    try:
        hung = f"Rank 1 of run {run.id} makes no progress.".encode()
        wait_for(lambda: any(hung in request.body for request in receiver.asked), 120, "a message")
        assert b'"cluster":"lab"' in b"".join(request.body for request in receiver.asked)
        [alert] = alerts.find("MLBenchRunStalled")
        assert alerts.values(f"{names.WORKER_RUNNING}{{RUN}}") == {"0": 1, "1": 1}
    finally:
        victim.resume()
    assert alert["labels"]["rank"] == "1"
    assert alert["labels"]["pod"] == "local-mlbench-worker-1"
    assert f"Run {run.id} ({run.name}): rank 1" in alert["annotations"]["description"]
    wait_for(lambda: not alerts.find("MLBenchRunStalled"), what="the alert resolves")
    client.stop_run(run.id).result()


def test_alerts_name_the_rank_of_a_nan_loss_and_the_straggler(
    client: ApiClient, stack: Home
) -> None:
    run = order_command(client, "nan", shlex.join(_NAN_AND_STRAGGLER), num_workers=2)
    alerts = RunAlerts(stack, run)
    _check_nan_fires_at_once(alerts)
    _check_straggler_is_named(alerts, client, run)
    expected = _series_of_rules_and_runbooks()
    wait_for(lambda: expected <= _series(stack), what="all series of rules and runbooks exist")


def _check_nan_fires_at_once(alerts: RunAlerts) -> None:
    not_finite = f'{names.RUN_METRIC}{{RUN,metric="{names.TRAIN_LOSS}"}} * 0 != 0'
    wait_for(lambda: alerts.values(not_finite), what="Prometheus has the NaN")
    arrived_at = time.time()
    wait_for(lambda: alerts.firing_ranks("MLBenchLossNotFinite"), what="the alert fires")
    [alert] = alerts.find("MLBenchLossNotFinite")
    assert alert["labels"]["metric"] == names.TRAIN_LOSS
    assert alert["labels"]["rank"] == "0"
    fired = datetime.fromisoformat(alert["activeAt"]).timestamp()
    assert fired < arrived_at + 2 * _EVALUATION_SECONDS


def _check_straggler_is_named(alerts: RunAlerts, client: ApiClient, run: Run) -> None:
    wait_for(lambda: alerts.firing_ranks("MLBenchStraggler"), 150, "the alert fires")
    [alert] = alerts.find("MLBenchStraggler")
    assert alert["labels"]["rank"] == "1"
    assert alert["labels"]["pod"] == "local-mlbench-worker-1"
    # Steps of rank 0 take as long, because it waits for rank 1.
    steps = alerts.values("run_rank:mlbench_worker_steps:rate1m{RUN}")
    assert steps["0"] == pytest.approx(steps["1"], rel=0.2)
    compute_seconds = alerts.values("run_rank:mlbench_worker_compute_seconds:mean1m{RUN}")
    assert compute_seconds["1"] > 2 * compute_seconds["0"]
    stragglers = known(client.get_result(run.id).result().value.stragglers)
    assert (stragglers.ranks[0].rank, stragglers.speedup_without > 2) == (1, True)
    assert not alerts.find("MLBenchRunStalled")


def _series_of_rules_and_runbooks() -> set[str]:
    queries = [path.read_text() for path in (_ROOT / "prometheus" / "rules").glob("*.yml")]
    for path in (_ROOT / "docs" / "runbooks").glob("*.md"):
        queries += re.findall(r"^```promql\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL)
    return {name for text in queries for name in _SERIES.findall(text)} - _ABSENT_SERIES


def _series(home: Home) -> set[str]:
    """Return the name of every series in Prometheus."""
    url = home.read_connection().prometheus_url
    answer = httpx.get(f"{url}/api/v1/label/__name__/values", timeout=10).raise_for_status()
    return set(answer.json()["data"])
