"""Targets, rules and access of the bundled Prometheus and of an operator's Prometheus.

A real Prometheus relabels targets from files, which have the labels of kubernetes_sd: Debian builds
it without kubernetes_sd.
"""

import copy
import json
import re
import subprocess
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from helm.check.operator_kinds import operator_errors
from helm.check.prometheus import without_kubernetes
from helm.check.rendering import VALUES, ChartError, Document, Helm, find_documents
from tests.conftest import free_port, wait_for
from tests.helm.conftest import Render
from tests.helm.pods import environment, master_containers, pod_spec

_PROMETHEUS = Path(__file__).parents[2] / "prometheus"
_JOBS = ("master", "controller", "exporter", "workers")
_SCRAPED = {
    ("master", "r-mlbench-master-1"),
    ("controller", "r-mlbench-master-1"),
    ("exporter", "node-a"),
    ("workers", "r-mlbench-worker-0"),
}


def _target(pod: str, port: str, phase: str = "Running") -> dict[str, Any]:
    """Return a container's port as kubernetes_sd would report it. Nothing listens there."""
    labels = {"pod_name": pod, "pod_phase": phase, "pod_node_name": "node-a"}
    labels["pod_container_port_name"] = port
    return {
        "targets": [f"127.0.0.1:{free_port()}"],
        "labels": {f"__meta_kubernetes_{key}": value for key, value in labels.items()},
    }


@pytest.fixture(scope="module")
def config(render: Render) -> Any:
    (config,) = find_documents(render(), "ConfigMap", "r-mlbench-prometheus")
    return yaml.safe_load(config["data"]["prometheus.yml"])


@pytest.fixture(scope="module")
def prometheus(
    helm: Helm, config: Any, prometheus_binary: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    """The chart's Prometheus with targets for master, exporter and workers, and its password."""
    folder, port = tmp_path_factory.mktemp("prometheus"), free_port()
    pods = {
        "master": [_target("r-mlbench-master-1", port) for port in ("http", "metrics")],
        "exporter": [_target("r-mlbench-exporter-x", "metrics")],
        "workers": [
            _target("r-mlbench-worker-0", "metrics"),
            _target("r-mlbench-worker-0", "of-a-users-sidecar"),
            _target("r-mlbench-worker-1", "metrics", phase="Pending"),
            _target("r-mlbench-worker-2", "metrics", phase="Failed"),
        ],
    }
    for job, targets in {**pods, "controller": pods["master"]}.items():
        (folder / f"{job}.json").write_text(json.dumps(targets))
    (secret,) = find_documents(helm.render("1.31.0"), "Secret", "r-mlbench")
    secrets = {key: b64decode(value).decode() for key, value in secret["data"].items()}
    (folder / "password").write_text(secrets["prometheus-password"])
    (folder / "web.yml").write_text(secrets["prometheus-web.yml"])
    settings = without_kubernetes(copy.deepcopy(config), str(folder))
    (itself,) = (job for job in settings["scrape_configs"] if job["job_name"] == "prometheus")
    itself["scrape_interval"] = itself["scrape_timeout"] = "1s"
    itself["basic_auth"]["password_file"] = str(folder / "password")
    itself["static_configs"] = [{"targets": [f"127.0.0.1:{port}"]}]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(settings))
    command = (
        *(prometheus_binary, f"--config.file={folder}/prometheus.yml"),
        *(f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}"),
        *("--web.enable-remote-write-receiver", f"--web.config.file={folder}/web.yml"),
    )
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    yield f"http://127.0.0.1:{port}", secrets["prometheus-password"]
    process.kill()
    process.wait()


def _ask(prometheus: tuple[str, str], path: str, **params: str) -> Any:
    """Query Prometheus with its password; return the data, or None while it is starting."""
    url, password = prometheus
    try:
        answer = httpx.get(f"{url}/api/v1/{path}", params=params, auth=("mlbench", password))
    except httpx.TransportError:
        return None
    return answer.json()["data"] if answer.is_success else None


def test_jobs_and_instances_match_the_alerts(prometheus: tuple[str, str]) -> None:
    def scraped() -> set[tuple[str, str]]:
        answer = _ask(prometheus, "targets", state="active")
        labels = [target["labels"] for target in answer["activeTargets"]] if answer else []
        assert all(of.keys() == {"job", "instance"} for of in labels)
        return {(of["job"], of["instance"]) for of in labels if of["job"] != "prometheus"}

    wait_for(lambda: scraped() == _SCRAPED, what="Prometheus has scraped the targets")


def test_without_the_password_nobody_reads_or_writes(
    prometheus: tuple[str, str],
) -> None:
    def scrapes_itself() -> bool:
        answer = _ask(prometheus, "query", query='up{job="prometheus"}')
        return [series["value"][1] for series in (answer or {"result": ()})["result"]] == ["1"]

    wait_for(scrapes_itself, what="Prometheus scrapes itself with its password")
    url, password = prometheus
    for path in ("/api/v1/query?query=up", "/metrics", "/-/ready", "/graph"):
        assert httpx.get(f"{url}{path}").status_code == 401
    write = f"{url}/api/v1/write"
    assert httpx.post(write, content=b"").status_code == 401
    assert httpx.post(write, content=b"", auth=("mlbench", f"{password}x")).status_code == 401
    assert httpx.post(write, content=b"", auth=("mlbench", password)).status_code != 401


def test_probes_of_prometheus_need_no_password(render: Render) -> None:
    (container,) = pod_spec(render(), "r-mlbench-prometheus")["containers"]
    assert "--web.config.file=/etc/prometheus/access/web.yml" in container["args"]
    probes = [value for key, value in container.items() if key.endswith("Probe")]
    assert probes
    assert all("tcpSocket" in probe for probe in probes)


def test_each_job_discovers_only_its_pods_in_the_release_namespace(config: Any) -> None:
    jobs = {job["job_name"]: job for job in config["scrape_configs"]}
    assert jobs.keys() == {"prometheus", *_JOBS}
    for name, component in zip(_JOBS, ("master", "master", "exporter", "worker"), strict=True):
        (discovery,) = jobs[name]["kubernetes_sd_configs"]
        label = f"app=mlbench,component={component},release=r"
        assert discovery == {
            "role": "pod",
            "namespaces": {"own_namespace": True},
            "selectors": [{"role": "pod", "label": label}],
        }
    honoring = [jobs[name].get("honor_labels", False) for name in _JOBS]
    assert honoring == [False, False, True, False]


def test_scrape_limits_and_relabeling_match_the_local_stack(config: Any) -> None:
    local = yaml.safe_load((_PROMETHEUS / "prometheus.yml").read_text())
    jobs, theirs = (
        {job["job_name"]: job for job in source["scrape_configs"]} for source in (config, local)
    )
    for name in _JOBS:
        limits = {key: value for key, value in theirs[name].items() if key.endswith("_limit")}
        assert len(limits) == 5
        assert jobs[name].items() >= limits.items()
        for key, usual in (("honor_timestamps", True), ("metric_relabel_configs", [])):
            assert jobs[name].get(key, usual) == theirs[name].get(key, usual), (name, key)


@pytest.fixture(scope="module")
def operated(render: Render) -> list[Document]:
    return render(file=VALUES / "operator.yaml", operator=True)


def test_an_operator_gets_the_same_jobs(operated: list[Document]) -> None:
    monitors = find_documents(operated, "ServiceMonitor") + find_documents(operated, "PodMonitor")
    jobs = {}
    for monitor in monitors:
        assert monitor["metadata"]["labels"]["release"] == "kube-prometheus-stack"
        assert monitor["spec"]["selector"]["matchLabels"]["release"] == "r"
        (endpoint,) = monitor["spec"].get("endpoints") or monitor["spec"]["podMetricsEndpoints"]
        (job,) = (
            r["replacement"] for r in endpoint["relabelings"] if r.get("targetLabel") == "job"
        )
        jobs[job] = endpoint["honorLabels"]
    assert jobs == {"master": False, "controller": False, "exporter": True, "workers": False}


def test_an_operator_supports_every_field(operated: list[Document]) -> None:
    assert operator_errors(operated) == []
    for kind in ("PodMonitor", "ServiceMonitor", "PrometheusRule"):
        document = find_documents(operated, kind)[0]
        misspelt = {**document, "spec": {**document["spec"], "interwal": "10s"}}
        (error,) = operator_errors([misspelt])
        assert re.match(rf"{kind}/r-mlbench.*: \$\.spec: .*'interwal' was unexpected", error)


def test_both_variants_get_the_rules_of_the_repository(
    render: Render, operated: list[Document]
) -> None:
    files = sorted((_PROMETHEUS / "rules").glob("*.yml"))
    (config,) = find_documents(render(), "ConfigMap", "r-mlbench-prometheus-rules")
    assert config["data"] == {file.name: file.read_text() for file in files}
    (rule,) = find_documents(operated, "PrometheusRule")
    groups = [group for file in files for group in yaml.safe_load(file.read_text())["groups"]]
    assert rule["spec"]["groups"] == groups


def test_without_an_operator_its_resources_are_left_out(render: Render) -> None:
    documents = render(file=VALUES / "operator.yaml")
    assert not [d for d in documents if d["apiVersion"].startswith("monitoring.coreos.com")]


def test_an_existing_prometheus_is_used_instead(render: Render) -> None:
    documents = render(file=VALUES / "prometheus.yaml")
    assert find_documents(documents, "StatefulSet") == []
    for container in master_containers(documents):
        url = environment(container)["MLBENCH_PROMETHEUS_URL"]
        assert url == "http://prometheus.monitoring:9090"


def test_an_existing_prometheus_may_have_a_login_and_another_address_for_writes(
    render: Render,
) -> None:
    documents = render(
        "prometheus.enabled=false",
        "prometheus.url=https://prometheus.example.org/read",
        "prometheus.writeUrl=https://write.example.org:8443/api/v1/write",
        "prometheus.existingSecret=login",
    )
    login = "$(MLBENCH_PROMETHEUS_USER):$(MLBENCH_PROMETHEUS_PASSWORD)"
    (grafana,) = pod_spec(documents, "r-mlbench-grafana")["containers"]
    for container in (*master_containers(documents), grafana):
        (secret,) = (e for e in container["env"] if e["name"] == "MLBENCH_PROMETHEUS_PASSWORD")
        assert secret["valueFrom"] == {"secretKeyRef": {"name": "login", "key": "password"}}
    for container in master_containers(documents):
        variables = [entry["name"] for entry in container["env"]]
        # Kubernetes expands only variables that are defined earlier.
        assert variables.index("MLBENCH_PROMETHEUS_PASSWORD") < variables.index(
            "MLBENCH_PROMETHEUS_URL"
        )
        environ = environment(container)
        assert environ["MLBENCH_PROMETHEUS_URL"] == f"https://{login}@prometheus.example.org/read"
        write_url = f"https://{login}@write.example.org:8443/api/v1/write"
        assert environ["MLBENCH_PROMETHEUS_WRITE_URL"] == write_url
    assert environment(grafana)["MLBENCH_PROMETHEUS_URL"] == "https://prometheus.example.org/read"


def test_the_bundled_prometheus_may_have_external_labels(render: Render) -> None:
    documents = render("prometheus.externalLabels.cluster=lab")
    (config,) = find_documents(documents, "ConfigMap", "r-mlbench-prometheus")
    loaded = yaml.safe_load(config["data"]["prometheus.yml"])
    assert loaded["global"]["external_labels"] == {"cluster": "lab"}


@pytest.mark.parametrize(
    ("values", "refusal"),
    [
        (["prometheus.writeUrl=http://w"], "writeUrl and existingSecret are for your own"),
        (["prometheus.existingSecret=s"], "writeUrl and existingSecret are for your own"),
        (
            [
                *("prometheus.enabled=false", "prometheus.url=http://p"),
                "prometheus.externalLabels.a=b",
            ],
            "externalLabels: are for the bundled",
        ),
    ],
)
def test_values_of_the_unused_prometheus_are_refused(
    render: Render, values: list[str], refusal: str
) -> None:
    with pytest.raises(ChartError, match=refusal):
        render(*values)
