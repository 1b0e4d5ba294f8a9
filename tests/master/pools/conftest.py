"""What tests of the pools share."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mlbench_master.pools.manifests import Manifest, load
from tests.master.pools.made import make_manifest
from tests.master.pools.proxy import Proxy


@pytest.fixture
def stop() -> Iterator[threading.Event]:
    """Set when the test is over: its threads ask no more then."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def manifest_path(tmp_path: Path) -> Path:
    path = tmp_path / "worker.json"
    path.write_text(json.dumps(make_manifest()))
    return path


@pytest.fixture
def manifest(manifest_path: Path) -> Manifest:
    return load(manifest_path)


@pytest.fixture
def lead_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Proxy], None]:
    """Have the API's client find a proxy, and begin again sooner after failures."""

    def lead(proxy: Proxy) -> None:
        proxy.write_config(tmp_path / "config")
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        monkeypatch.setattr("mlbench_master.pools.reflector._FIRST_BACKOFF_SECONDS", 0.01)
        monkeypatch.setattr("mlbench_master.pools.reflector._LONGEST_BACKOFF_SECONDS", 0.02)
        monkeypatch.setattr("mlbench_master.pools.kubernetes._FIRST_BACKOFF_SECONDS", 0.01)
        monkeypatch.setattr("mlbench_master.pools.kubernetes._LONGEST_BACKOFF_SECONDS", 0.02)

    return lead
