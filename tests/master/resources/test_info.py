"""``/api/info/`` and ``/api/benchmarks/``: limits of the installation, and benchmarks."""

from dataclasses import replace
from typing import Any

import pytest
from falcon.testing import TestClient

from mlbench.benchmarks.registry import BENCHMARKS
from mlbench.contract.distribution import own_version
from mlbench_master.reading.promql import PrometheusClient
from mlbench_master.settings import InstallationLimits, Settings
from tests.conftest import call_as_user


def ask(settings: Settings, prometheus: PrometheusClient) -> Any:
    return call_as_user(settings, prometheus).simulate_get("/api/info/").json


@pytest.mark.usefixtures("database")
def test_a_local_stack(settings: Settings, prometheus: PrometheusClient) -> None:
    local = replace(settings, prometheus_public_url="http://127.0.0.1:9")
    bounds = {"workers": 4, "cpus": 2.0, "whole_cpus": True}
    assert ask(local, prometheus) == {
        "version": own_version(),
        "pool": "local",
        "database": "sqlite",
        "workers": 2,
        "limits": bounds | {"bandwidth": {"most": None}, "gpus": 0, "latency": True},
        "grafana": None,
        "prometheus": {"url": "http://127.0.0.1:9"},
        "user": "",
        "role": "admin",
    }


def test_a_cluster(settings: Settings, prometheus: PrometheusClient) -> None:
    limits = InstallationLimits(workers=8, cpus=0.5, bandwidth=250.0, gpus=1, pool="kubernetes")
    there = replace(settings, limits=limits, grafana_public_url="https://grafana.example.com")
    info = ask(there, prometheus)
    expected = {"pool": "kubernetes", "grafana": {"url": "https://grafana.example.com"}}
    assert info == info | expected | {"prometheus": None}
    bounds = {"whole_cpus": False, "bandwidth": {"most": 250.0}, "gpus": 1}
    assert info["limits"] == info["limits"] | bounds
    unlimited = replace(there, limits=InstallationLimits(pool="kubernetes"))
    assert ask(unlimited, prometheus)["limits"]["bandwidth"] == {"most": None}


def test_all_benchmarks_are_listed(api: TestClient) -> None:
    answer = api.simulate_get("/api/benchmarks/")
    assert answer.status_code == 200
    assert [entry["name"] for entry in answer.json] == list(BENCHMARKS)
    assert all(entry["description"] for entry in answer.json)
    rules = {entry["name"]: entry["rules"] for entry in answer.json}
    assert rules["digits"]["goal"] == [97.0, 90.0]
    assert rules["steps"] == {}
    targets = {entry["name"]: (entry["target"], entry["light_target"]) for entry in answer.json}
    accuracy = {"metric": "val_global_Prec@1", "lower_is_better": False}
    assert targets["digits"] == (accuracy | {"value": 97.0}, accuracy | {"value": 90.0})
    assert targets["ridge-regression"] == targets["steps"] == (None, None)


@pytest.mark.parametrize(
    ("said", "field"), [("has_light_target", {"light_target": True}), ("takes_seed", {"seed": 1})]
)
def test_listed_options_are_accepted(api: TestClient, said: str, field: dict[str, object]) -> None:
    for benchmark in api.simulate_get("/api/benchmarks/").json:
        order = {"name": "a", "benchmark": benchmark["name"], "queue": True, **field}
        answer = api.simulate_post("/api/runs/", json=order)
        assert (answer.status_code == 200) == benchmark[said], answer.text
