"""What comes with the code is found: in a checkout, and in an installed package."""

from pathlib import Path

import pytest

from mlbench import assets
from mlbench.assets import grafana_folder, prometheus_folder


def test_a_package_has_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "grafana").mkdir()
    monkeypatch.setattr(assets, "_PACKAGE", tmp_path)
    assert grafana_folder() == tmp_path / "grafana"
    assert prometheus_folder() == assets.CHECKOUT / "prometheus"
