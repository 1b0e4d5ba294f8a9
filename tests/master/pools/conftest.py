"""Fixtures for tests of the pools."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlbench_master.pools.manifests import PodManifest, load
from tests.master.pools.made import write_manifest
from tests.master.pools.proxy import Backend, Proxy, serve


@pytest.fixture
def stop() -> Iterator[threading.Event]:
    """An event that is set at the end of the test to stop its threads."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def manifest_path(tmp_path: Path) -> Path:
    return write_manifest(tmp_path / "worker.json")


@pytest.fixture
def manifest(manifest_path: Path) -> PodManifest:
    return load(manifest_path)


@pytest.fixture
def proxy(cluster: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A proxy in front of the test's cluster; API clients connect to it and retry after 10 ms."""
    with serve(cluster) as proxy:
        proxy.write_config(tmp_path / "config")
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        for module in ("reflector", "kubernetes"):
            pauses = f"mlbench_master.pools.{module}"
            monkeypatch.setattr(f"{pauses}._FIRST_BACKOFF_SECONDS", 0.01)
            monkeypatch.setattr(f"{pauses}._MAX_BACKOFF_SECONDS", 0.02)
        yield proxy
