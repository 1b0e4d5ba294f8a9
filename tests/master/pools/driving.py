"""A process that runs the pool as the controller does: it can be killed at any moment.

``python -m tests.master.pools.driving MANIFEST NAMESPACE WORKERS SHAPE`` scales,
and prints a line of JSON whenever what it sees changes.
"""

import json
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path

from master.pools.api import Api
from master.pools.base import Shape
from master.pools.kubernetes import KubernetesPool
from master.pools.manifests import load
from master.settings import ClusterSettings
from tests.master.pools.made import DEFAULTS, OWNER_NAME


def make_pool(manifest: Path, namespace: str, stop: threading.Event) -> KubernetesPool:
    """Return a pool at work in the cluster that ``$KUBECONFIG`` names."""
    settings = ClusterSettings(manifest, namespace, OWNER_NAME)
    pool = KubernetesPool(Api(), settings, load(manifest), DEFAULTS)
    pool.start(stop)
    return pool


def main() -> None:
    """Scale until killed."""
    manifest, namespace, workers, shape = sys.argv[1:]
    pool = make_pool(Path(manifest), namespace, threading.Event())
    said = ""
    while True:
        pool.scale(int(workers), Shape(**json.loads(shape)), frozenset())
        line = json.dumps([asdict(pod) for pod in pool.pods() or []])
        if line != said:
            print(line, flush=True)
            said = line
        time.sleep(0.02)


if __name__ == "__main__":
    main()
