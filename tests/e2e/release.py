"""A release of the chart in the cluster: installed, upgraded, asked and looked into."""

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
"""Of each worker: two must fit on a small node, beside everything else."""
WORKERS = 2
"""Idle ones that are kept."""
START_SECONDS = 90
"""After 60 the master itself ends a pod whose node has lost sight of it."""
IDLE_SECONDS = 10
ENDLESS = {"learning_rate": "0.000001"}
"""Options of a training that does not reach its target before its last epoch."""

# While the master's pod is another one: it is stopped, started, and the node may be busy.
_AWAY_SECONDS = 180.0
# After the end of a run; Prometheus may have to be reached again first.
_COUNTED_SECONDS = 60.0

Object = dict[str, Any]


def is_ready(pod: Object) -> bool:
    """Return whether all containers of a pod are ready."""
    return all(one["ready"] for one in pod["status"].get("containerStatuses", [{"ready": False}]))


@dataclass(frozen=True)
class Release:
    """The release of one place."""

    place: Place
    images: Images
    most_workers: int
    """What ``limits.workers`` is: more than the cluster has room for."""
    ends: ExitStack
    """Ends what was started to reach it."""

    @property
    def name(self) -> str:
        """The release's name, and its namespace's."""
        return self.place.name

    @property
    def fullname(self) -> str:
        """What the names of its objects begin with."""
        return f"{self.name}-mlbench"

    @property
    def kept_workers(self) -> list[str]:
        """The names of the workers' pods that are there also when they are idle."""
        return [f"{self.fullname}-worker-{number}" for number in range(WORKERS)]

    # --- Helm. ---

    def helm(self, command: str, *arguments: str, more: Mapping[str, Any] | None = None) -> str:
        """Call Helm to install or upgrade, and wait until all is ready."""
        values = json.dumps(self._values() | dict(more or {}))
        wait = ("--wait", "--timeout", "4m")
        given = ("--namespace", self.name, "--values", "-", *wait, *arguments)
        return run(
            self.place.helm, command, self.name, str(CHART), *given, input=values, seconds=270
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
                # Not every kubelet's certificate is signed by the cluster.
                "kubelet": {"insecure": True},
            },
            "prometheus": {
                "image": self.images.values("prometheus"),
                "persistence": {"enabled": False},
                "scrapeInterval": "5s",
            },
            "grafana": {"enabled": False},
        }

    # --- What there is. ---

    def kubectl(self, *arguments: str, seconds: float = 60.0) -> str:
        return run("kubectl", "--namespace", self.name, *arguments, seconds=seconds)

    def selector(self, component: str) -> str:
        """Return the labels by which a component's objects are found."""
        return f"app=mlbench,release={self.name},component={component}"

    def objects(self, kind: str, component: str) -> list[Object]:
        selector = self.selector(component)
        found = json.loads(self.kubectl("get", kind, "--selector", selector, "--output", "json"))
        items: list[Object] = found["items"]
        return items

    def pods(self, component: str) -> dict[str, Object]:
        """Return a component's pods by name, without those that are going."""
        return {
            pod["metadata"]["name"]: pod
            for pod in self.objects("pods", component)
            if "deletionTimestamp" not in pod["metadata"]
        }

    def wait_for_workers(self, number: int, seconds: float = 120.0) -> None:
        """Wait until there are just as many workers, and all are ready."""
        wait_until(
            lambda: list(map(is_ready, self.objects("pods", "worker"))),
            lambda ready: ready == [True] * number,
            seconds,
            f"{number} workers",
        )

    # --- The API. ---

    @property
    def service(self) -> str:
        """The master's service."""
        return f"{self.fullname}-master"

    def token(self) -> str:
        """Return the user's token, as the NOTES say."""
        return self.secrets()["token"]

    def secrets(self) -> dict[str, str]:
        found = json.loads(self.kubectl("get", "secret", self.fullname, "--output", "json"))
        return {key: base64.b64decode(value).decode() for key, value in found["data"].items()}

    @cached_property
    def url(self) -> str:
        """Where the master is reached from outside the cluster."""
        return self.ends.enter_context(reachable(self.name, self.service, 80))

    @cached_property
    def client(self) -> ApiClient:
        """A client of the API, as seen from outside the cluster."""
        return ApiClient(url=self.url, token=self.token())

    def run(self, run_id: int) -> Run:
        """Return a run, also while the master's pod is just being replaced."""
        return patiently(self.client.get_run, run_id, seconds=_AWAY_SECONDS)

    def order(self, name: str, benchmark: str, workers: int = WORKERS, **args: object) -> Run:
        """Order a run of a task with these arguments, after whatever runs now."""
        texts = {key: str(value) for key, value in args.items()}
        ordered = self.client.create_run(
            name, workers, None, benchmark=benchmark, args=texts, queue=True
        )
        return ordered.result().value

    def order_image(self, name: str, image: str, command: str, workers: int = WORKERS) -> Run:
        """Order a run of a command in one of the images, after whatever runs now."""
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
        """Wait until a run has FINISHED, make sure that no value is missing, and return it."""
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
        """Wait until an active run has recorded a value of a metric that is as large."""

        def last() -> float:
            seen = self.run(run.id)
            assert seen.active, f"run {seen.id} is {seen.state}: {seen.reason}"
            ask = self.client.get_run_metrics
            series = patiently(
                lambda: ask(run.id, metric_filter=metric, last_n=1), seconds=_AWAY_SECONDS
            )
            return max((points[-1].number for points in series.values()), default=-1.0)

        wait_until(last, lambda value: value >= at_least, 180, f"{metric} reaches {at_least:g}")

    # --- Prometheus. ---

    @cached_property
    def prometheus_url(self) -> str:
        """Where the bundled Prometheus is reached from outside the cluster."""
        service = f"{self.fullname}-prometheus"
        return self.ends.enter_context(reachable(self.name, service, 9090))

    def query(self, promql: str) -> list[Object]:
        """Return what the bundled Prometheus answers to who knows its password."""
        answer = httpx.get(
            f"{self.prometheus_url}/api/v1/query",
            params={"query": promql},
            auth=("mlbench", self.secrets()["prometheus-password"]),
            timeout=30.0,
        ).json()
        assert answer["status"] == "success", answer
        result: list[Object] = answer["data"]["result"]
        return result

    # --- When something goes wrong. ---

    def state(self) -> str:
        """Return what there is, for whoever reads why a test failed."""
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
            seen = self.kubectl(*arguments, seconds=30)
        except CommandError as error:
            seen = str(error)
        lines = seen.splitlines()
        return "\n".join([f"--- kubectl {' '.join(arguments)}", *lines[:1], *lines[1:][-25:]])

    def _last_run(self) -> str:
        """Return the newest run, and what its ranks printed last."""
        try:
            newest = max(self.client.get_runs().result().value, key=lambda run: run.id)
            logs = [
                self.client.get_logs(newest.id, rank.rank, "stderr", tail=10).result().value.text
                for rank in newest.ranks
            ]
        except (MLBenchError, CommandError, ValueError) as error:
            return f"--- the newest run cannot be asked for: {error}"
        return "\n".join([f"--- {newest}", *logs])
