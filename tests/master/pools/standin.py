"""A fake cluster: it stores applied objects and creates pods at once."""

import itertools
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from mlbench_master.pools.manifests import Object, shape_of
from tests.master.pools.proxy import Answer, Request


@dataclass
class StandIn:
    """Objects of the fake cluster, by kind and name."""

    objects: dict[str, dict[str, Object]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    _uids: Iterator[int] = field(default_factory=itertools.count)

    def has_exactly(self, wanted: Object) -> bool:
        """Return whether the cluster has only this StatefulSet, its Service and its pods."""
        name, size = wanted["metadata"]["name"], wanted["spec"]["replicas"]
        with self.lock:
            pods, sets = self.objects.get("pods", {}), self.objects.get("statefulsets", {})
            shapes = {pod["metadata"]["labels"]["mlbench.shape"] for pod in pods.values()}
            return (
                list(sets) == list(self.objects.get("services", {})) == [name]
                and sets[name]["spec"] == wanted["spec"]
                and sorted(pods) == [f"{name}-{number}" for number in range(size)]
                and shapes == {shape_of(wanted)}
            )

    def __call__(self, request: Request) -> Answer:
        with self.lock:
            status, found = self._answer(request)
        return status, iter([json.dumps(found).encode()] if found is not None else [])

    def _answer(self, request: Request) -> tuple[int, Object | None]:
        objects = self.objects.setdefault(request.kind, {})
        name = request.path.split("/namespaces/")[1].split("/", 2)[2:]
        match request.verb:
            case "WATCH":
                return 200, None
            case "GET" if not name:
                return 200, {"metadata": {"resourceVersion": "1"}, "items": list(objects.values())}
            case "GET":
                return (200, objects[name[0]]) if name[0] in objects else (404, {"message": "none"})
            case "PATCH":
                self._apply(request.kind, json.loads(request.body))
                return 200, {}
            case _:
                self._delete(name[0], json.loads(request.body)["preconditions"]["uid"])
                return 200, {}

    def _apply(self, kind: str, wanted: Object) -> None:
        self.objects[kind][wanted["metadata"]["name"]] = wanted
        if kind == "statefulsets":
            self._make_pods(wanted)

    def _make_pods(self, stateful_set: Object) -> None:
        pods = self.objects.setdefault("pods", {})
        size, name = stateful_set["spec"]["replicas"], stateful_set["metadata"]["name"]
        for pod in [pod for pod in pods if int(pod.rpartition("-")[2]) >= size]:
            del pods[pod]
        for number in range(size):
            if (pod := f"{name}-{number}") not in pods:
                pods[pod] = self._make_pod(pod, stateful_set["spec"]["template"])

    def _make_pod(self, name: str, template: Object) -> Object:
        uid = next(self._uids)
        state = {"name": "worker", "imageID": "worker@sha256:0", "state": {"running": {}}}
        return {
            "metadata": {"name": name, "uid": str(uid), "labels": template["metadata"]["labels"]},
            "spec": {"nodeName": "n"},
            "status": {"phase": "Running", "podIP": f"10.0.0.{uid}", "containerStatuses": [state]},
        }

    def _delete(self, name: str, uid: str) -> None:
        pods = self.objects["pods"]
        if name in pods and pods[name]["metadata"]["uid"] == uid:
            del pods[name]
            [stateful_set] = self.objects["statefulsets"].values()
            self._make_pods(stateful_set)
