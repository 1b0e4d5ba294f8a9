"""Which pool there is, as the settings say."""

import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from master.pools.choose import open_pool
from master.pools.kubernetes import KubernetesPool
from master.pools.local import LocalPool
from master.settings import Settings
from tests.master.pools.made import OWNER, OWNER_NAME, make_manifest
from tests.master.pools.proxy import serve
from tests.master.pools.standin import StandIn
from tests.master.pools.test_kubernetes import until


def test_a_local_one(settings: Settings, stop: threading.Event) -> None:
    assert isinstance(open_pool(settings, CollectorRegistry(), stop), LocalPool)


def test_one_in_a_cluster(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: threading.Event
) -> None:
    (tmp_path / "worker.json").write_text(json.dumps(make_manifest()))
    monkeypatch.setenv("MLBENCH_WORKER_MANIFEST", str(tmp_path / "worker.json"))
    monkeypatch.setenv("MLBENCH_NAMESPACE", "here")
    monkeypatch.setenv("MLBENCH_OWNER", OWNER_NAME)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    registry = CollectorRegistry()
    with serve(StandIn({"deployments": {OWNER_NAME: OWNER}})) as proxy:
        proxy.write_config(tmp_path / "config")
        pool = open_pool(replace(settings, pool="kubernetes"), registry, stop)
        assert isinstance(pool, KubernetesPool)
        until(lambda: pool.pods() == [])
    name, labels = "mlbench_kubernetes_requests_total", {"verb": "GET", "status": "200"}
    assert (registry.get_sample_value(name, labels) or 0) > 0
