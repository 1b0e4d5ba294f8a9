"""A namespace of a real cluster for a test, and a look into it past the pool."""

import json
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.master.pools.made import IMAGE, LABELS, OWNER_NAME

Object = dict[str, Any]


@dataclass(frozen=True)
class Namespace:
    """A namespace, asked with kubectl."""

    name: str

    def kubectl(self, *words: str, given: str | None = None) -> str:
        """Return what kubectl says."""
        command = ["kubectl", "-n", self.name, *words]
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def items(self, kind: str) -> list[Object]:
        """Return the objects of a kind that belong to the pool."""
        labels = ",".join(f"{name}={value}" for name, value in LABELS.items())
        found: list[Object] = json.loads(self.kubectl("get", kind, "-l", labels, "-o", "json"))[
            "items"
        ]
        return found

    def apply(self, *objects: Object) -> None:
        """Have these objects."""
        for one in objects:
            self.kubectl("apply", "-f", "-", given=json.dumps(one))


@contextmanager
def make_namespace() -> Iterator[Namespace]:
    """Give a namespace with the Deployment that the pool goes with, and take it away again."""
    namespace = Namespace(f"pool-{uuid.uuid4().hex[:8]}")
    namespace.kubectl("create", "namespace", namespace.name)
    try:
        words = ["create", "deployment", OWNER_NAME, f"--image={IMAGE}", "--replicas=0"]
        namespace.kubectl(*words)
        yield namespace
    finally:
        namespace.kubectl("delete", "namespace", namespace.name, "--wait=false")
