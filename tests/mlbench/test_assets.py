"""What comes with the code is found: in a checkout, and in an installed package."""

from pathlib import Path

import pytest

from mlbench import assets
from mlbench.assets import grafana_folder, prometheus_folder


def test_all_of_it_is_there() -> None:
    assert "scrape_configs" in (prometheus_folder() / "prometheus.yml").read_text()
    assert (prometheus_folder() / "rules" / "alerts.yml").is_file()
    provisioning = grafana_folder() / "provisioning"
    assert (provisioning / "datasources" / "mlbench.yml").is_file()
    assert (provisioning / "dashboards" / "mlbench.yml").is_file()
    assert (grafana_folder() / "dashboards" / "mlbench-run.json").is_file()


def test_a_package_has_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "grafana").mkdir()
    monkeypatch.setattr(assets, "_PACKAGE", tmp_path)
    assert grafana_folder() == tmp_path / "grafana"
    assert prometheus_folder() == assets.CHECKOUT / "prometheus"
