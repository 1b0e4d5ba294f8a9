"""A release of the chart in the cluster: Helm, kubectl, API and Prometheus."""

import base64
import json
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx

from mlbench import ApiClient
from mlbench.cli.live import patiently
from mlbench.contract.errors import MLBenchError
from mlbench.contract.records import Run
from tests.e2e.commands import CommandError, run, wait_until
from tests.e2e.place import Images, Place
from tests.e2e.reaching import reachable
from tests.support.known import known
from tests.support.stacks import assert_counted, order_command

CHART = Path(__file__).parents[2] / "helm" / "mlbench"
CORES = 0.5
"""Cores per worker. Two workers and all other pods must fit on a small node."""
WORKERS = 2
"""Number of idle workers that stay."""
START_SECONDS = 90
"""More than the 60 s after which the master force-deletes a pod on a lost node."""
IDLE_SECONDS = 10
ENDLESS = {"learning_rate": "0.000001"}
"""Options with which a training does not reach its target before its last epoch."""

# Time to replace the master's pod on a busy node.
_AWAY_SECONDS = 180.0
# Time to verify the samples of an ended run; Prometheus may have to reconnect first.
_COUNTED_SECONDS = 60.0

Object = dict[str, Any]


def is_ready(pod: Object) -> bool:
    return all(
        container["ready"]
        for container in pod["status"].get("containerStatuses", [{"ready": False}])
    )


@dataclass(frozen=True)
class Release:
    """A release of the chart in a place."""

    place: Place
    images: Images
    most_workers: int
    """Value of ``limits.workers``, which exceeds the capacity of the cluster."""
    ends: ExitStack
    """Stops the processes that forward ports."""

    @property
    def name(self) -> str:
        """Name of the release and of its namespace."""
        return self.place.name

    @property
    def fullname(self) -> str:
        """Prefix of the names of the release's objects."""
        return f"{self.name}-mlbench"

    @property
    def kept_workers(self) -> list[str]:
        """Names of the worker pods that stay while the pool is idle."""
        return [f"{self.fullname}-worker-{number}" for number in range(WORKERS)]

    # --- Helm ---

    def helm(self, command: str, *arguments: str, more: Mapping[str, Any] | None = None) -> str:
        """Install or upgrade the release, and wait until all objects are ready."""
        values = json.dumps(self._values() | dict(more or {}))
        wait = ("--wait", "--timeout", "4m")
        options = ("--namespace", self.name, "--values", "-", *wait, *arguments)
        return run(
            self.place.helm, command, self.name, str(CHART), *options, input=values, seconds=270
        )

    def _values(self) -> dict[str, Any]:
        return {
            "limits": {"cpu": CORES, "workers": self.most_workers},
            "archive": {"persistence": {"existingClaim": self.place.claim("archive")}},
            "master": {
                "image": self.images.values("master"),
                "persistence": {"existingClaim": self.place.claim("state")},
            },
            "worker": {
                "image": self.images.values("worker"),
                "replicas": WORKERS,
                "startSeconds": START_SECONDS,
                "idleSeconds": IDLE_SECONDS,
                "resources": {"requests": {"memory": "640Mi"}},
                "sharedMemory": "64Mi",
            },
            "exporter": {
                "image": self.images.values("exporter"),
                # Some kubelets have a certificate that the cluster's CA did not sign.
                "kubelet": {"insecure": True},
            },
            "prometheus": {
                "image": self.images.values("prometheus"),
                "persistence": {"enabled": False},
                "scrapeInterval": "5s",
            },
            "grafana": {"enabled": False},
        }

    # --- Objects ---

    def kubectl(self, *arguments: str, seconds: float = 60.0) -> str:
        return run("kubectl", "--namespace", self.name, *arguments, seconds=seconds)

    def selector(self, component: str) -> str:
        """Return the label selector of a component."""
        return f"app=mlbench,release={self.name},component={component}"

    def objects(self, kind: str, component: str) -> list[Object]:
        selector = self.selector(component)
        response = json.loads(self.kubectl("get", kind, "--selector", selector, "--output", "json"))
        items: list[Object] = response["items"]
        return items

    def pods(self, component: str) -> dict[str, Object]:
        """Return a component's pods by name, without terminating pods."""
        return {
            pod["metadata"]["name"]: pod
            for pod in self.objects("pods", component)
            if "deletionTimestamp" not in pod["metadata"]
        }

    def wait_for_workers(self, number: int, seconds: float = 120.0) -> None:
        """Wait until there are exactly ``number`` workers, all of them ready."""
        wait_until(
            lambda: list(map(is_ready, self.objects("pods", "worker"))),
            lambda ready: ready == [True] * number,
            seconds,
            f"{number} workers",
        )

    # --- API ---

    @property
    def service(self) -> str:
        """Name of the master's service."""
        return f"{self.fullname}-master"

    def token(self) -> str:
        """Return the user token, read from the Secret as in the chart's NOTES."""
        return self.secrets()["token"]

    def secrets(self) -> dict[str, str]:
        secret = json.loads(self.kubectl("get", "secret", self.fullname, "--output", "json"))
        return {key: base64.b64decode(value).decode() for key, value in secret["data"].items()}

    @cached_property
    def url(self) -> str:
        """URL of the master from outside the cluster."""
        return self.ends.enter_context(reachable(self.name, self.service, 80))

    @cached_property
    def client(self) -> ApiClient:
        """A client of the API, from outside the cluster."""
        return ApiClient(url=self.url, token=self.token())

    def run(self, run_id: int) -> Run:
        """Return a run, with retries while the master's pod is replaced."""
        return patiently(self.client.get_run, run_id, seconds=_AWAY_SECONDS)

    def order(self, name: str, benchmark: str, workers: int = WORKERS, **args: object) -> Run:
        """Queue a run of a benchmark."""
        texts = {key: str(value) for key, value in args.items()}
        ordered = self.client.create_run(
            name, workers, None, benchmark=benchmark, args=texts, queue=True
        )
        return ordered.result().value

    def order_image(self, name: str, image: str, command: str, workers: int = WORKERS) -> Run:
        """Queue a run of a command in one of the images."""
        options = {"custom_image_name": self.images[image], "backend": "gloo", "queue": True}
        return order_command(self.client, name, command, num_workers=workers, **options)

    def wait_for_end(self, run: Run, seconds: float = 240.0) -> Run:
        return wait_until(
            lambda: self.run(run.id),
            lambda run: not run.active,
            seconds,
            f"run {run.id} ({run.name}) ends",
        )

    def finish(self, run: Run, seconds: float = 240.0) -> Run:
        """Wait until a run is FINISHED and its samples are verified; return the run."""
        ended = self.wait_for_end(run, seconds)
        assert ended.state == "FINISHED", ended.reason
        ended = wait_until(
            lambda: self.run(run.id),
            lambda run: run.delivery is not None,
            _COUNTED_SECONDS,
            f"the samples of run {run.id} ({run.name}) are counted",
        )
        assert_counted(ended)
        assert known(ended.delivery).recorded > 0
        return ended

    def wait_until_recorded(self, run: Run, metric: str, at_least: float) -> None:
        """Wait until an active run has recorded a value of at least ``at_least``."""

        def last() -> float:
            current = self.run(run.id)
            assert current.active, f"run {run.id} is {current.state}: {current.reason}"
            ask = self.client.get_run_metrics
            series = patiently(
                lambda: ask(run.id, metric_filter=metric, last_n=1), seconds=_AWAY_SECONDS
            )
            return max((points[-1].number for points in series.values()), default=-1.0)

        wait_until(last, lambda value: value >= at_least, 180, f"{metric} reaches {at_least:g}")

    # --- Prometheus ---

    @cached_property
    def prometheus_url(self) -> str:
        """URL of the bundled Prometheus from outside the cluster."""
        service = f"{self.fullname}-prometheus"
        return self.ends.enter_context(reachable(self.name, service, 9090))

    def query(self, promql: str) -> list[Object]:
        """Query the bundled Prometheus with its password."""
        answer = httpx.get(
            f"{self.prometheus_url}/api/v1/query",
            params={"query": promql},
            auth=("mlbench", self.secrets()["prometheus-password"]),
            timeout=30.0,
        ).json()
        assert answer["status"] == "success", answer
        result: list[Object] = answer["data"]["result"]
        return result

    # --- Failures ---

    def state(self) -> str:
        """Return pods, events, logs and the newest run, for the report of a failed test."""
        master, worker, test = map(self.selector, ("master", "worker", "test"))
        logs = ("logs", "--all-containers", "--prefix")
        looks = (
            ("get", "pods", "--output", "wide"),
            ("get", "events", "--sort-by", ".lastTimestamp"),
            (*logs, "--previous", "--selector", master),
            (*logs, "--selector", test),
            (*logs, "--selector", worker),
            (*logs, "--selector", master),
        )
        return "\n".join([*(self._look(*look) for look in looks), self._last_run()])

    def _look(self, *arguments: str) -> str:
        try:
            output = self.kubectl(*arguments, seconds=30)
        except CommandError as error:
            output = str(error)
        lines = output.splitlines()
        return "\n".join([f"--- kubectl {' '.join(arguments)}", *lines[:1], *lines[1:][-25:]])

    def _last_run(self) -> str:
        """Return the newest run and the last stderr lines of its ranks."""
        try:
            newest = max(self.client.get_runs().result().value, key=lambda run: run.id)
            logs = [
                self.client.get_logs(newest.id, rank.rank, "stderr", tail=10).result().value.text
                for rank in newest.ranks
            ]
        except (MLBenchError, CommandError, ValueError) as error:
            return f"--- the newest run cannot be asked for: {error}"
        return "\n".join([f"--- {newest}", *logs])
