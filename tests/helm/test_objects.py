"""Names, labels and wiring that clients, controller, exporter and dashboards rely on."""

import json
from typing import Any

import pytest

from helm.check.rendering import CHART, Helm, find_documents, worker_documents, worker_manifest
from mlbench_master.settings import Settings
from tests.helm.conftest import Render
from tests.helm.pods import (
    A_GRAFANA_OF_YOURS,
    environment,
    master_containers,
    pod_spec,
    pod_specs,
    worker_spec,
)


def test_objects_have_the_names_that_other_parts_expect(render: Render) -> None:
    documents = render()
    objects = {(document["kind"], document["metadata"]["name"]) for document in documents}
    assert objects >= {
        ("Deployment", "r-mlbench-master"),
        ("Service", "r-mlbench-master"),
        ("Secret", "r-mlbench"),
        ("ConfigMap", "r-mlbench-worker"),
        ("DaemonSet", "r-mlbench-exporter"),
        ("StatefulSet", "r-mlbench-prometheus"),
        ("Service", "r-mlbench-prometheus"),
        ("Deployment", "r-mlbench-grafana"),
        ("Service", "r-mlbench-grafana"),
    }
    assert ("StatefulSet", "r-mlbench-worker") not in objects, "created by the controller"
    services = [name for kind, name in objects if kind == "Service" and "master" in name]
    assert len(services) == 1, "clients find the API by this service"


def test_all_objects_have_the_original_and_the_kubernetes_labels(render: Render) -> None:
    documents = render("extraLabels.team=research")
    for document in documents:
        labels = document["metadata"]["labels"]
        assert labels["app"] == "mlbench"
        assert (labels["release"], labels["app.kubernetes.io/instance"]) == ("r", "r")
        assert labels["component"] == labels["app.kubernetes.io/component"]
        assert labels["helm.sh/chart"] == "mlbench-0.1.0"
        assert labels["team"] == "research"
    for document in worker_documents(documents):
        assert document["metadata"]["labels"]["component"] == "worker"
        assert document["metadata"]["labels"]["team"] == "research"


_INGRESS = ("grafana.ingress.enabled=true", "grafana.ingress.host=g.example.org")


@pytest.mark.parametrize(
    ("values", "url"),
    [
        ((), None),
        (_INGRESS, "http://g.example.org"),
        ((*_INGRESS, "grafana.ingress.tlsSecret=tls"), "https://g.example.org"),
        (("grafana.publicUrl=http://127.0.0.1:3000",), "http://127.0.0.1:3000"),
        (A_GRAFANA_OF_YOURS, "http://g:3000"),
    ],
)
def test_the_web_pages_get_the_public_address_of_grafana(
    render: Render, values: tuple[str, ...], url: str | None
) -> None:
    api, _ = master_containers(render(*values))
    assert environment(api).get("GRAFANA_PUBLIC_URL") == url
    assert "GRAFANA_TOKEN" not in environment(api)


@pytest.mark.parametrize(
    ("kube_version", "port"), [("1.20.2", 8000), ("1.22.0", 80), ("1.31.0", 80)]
)
def test_the_api_has_port_80_if_pods_may_bind_it(
    render: Render, kube_version: str, port: int
) -> None:
    documents = render(kube_version=kube_version)
    api, _ = master_containers(documents)
    assert [p["containerPort"] for p in api["ports"]] == [port]
    assert f"0.0.0.0:{port}" in api["args"]
    allowed = {"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}
    sysctls = pod_spec(documents, "r-mlbench-master")["securityContext"].get("sysctls", [])
    assert sysctls == ([allowed] if port == 80 else [])


def test_ports_name_their_protocol(render: Render) -> None:
    """Helm 4 applies server-side, where older Kubernetes versions have no default protocol."""
    documents = render()
    specs = [service["spec"] for service in find_documents(documents, "Service")]
    specs.append(worker_manifest(documents)["service"]["spec"])
    specs += [container for _, spec in pod_specs(documents) for container in spec["containers"]]
    for spec in specs:
        assert all(port["protocol"] == "TCP" for port in spec.get("ports", ()))


def test_worker_pods_are_as_the_controller_expects(render: Render) -> None:
    manifest = worker_manifest(render())
    assert manifest.keys() == {"service", "statefulSet", "initContainers"}
    assert manifest["service"]["spec"]["clusterIP"] == "None"
    assert manifest["service"]["spec"]["publishNotReadyAddresses"] is True
    spec = manifest["statefulSet"]["spec"]
    assert (spec["podManagementPolicy"], spec["updateStrategy"]) == (
        "Parallel",
        {"type": "OnDelete"},
    )
    assert spec["serviceName"] == manifest["service"]["metadata"]["name"] == "r-mlbench-worker"
    pod = spec["template"]["spec"]
    (worker,) = pod["containers"]
    assert worker["name"] == "worker"
    assert worker["args"] == [
        *("--pod", "$(MLBENCH_POD)", "--folder", "/var/lib/mlbench/attempts"),
        *("--host", "0.0.0.0", "--port", "9500", "--master", "http://r-mlbench-master"),
        *("--token-file", "/run/mlbench/token"),
    ]
    mounts = [(mount["name"], mount["mountPath"]) for mount in worker["volumeMounts"]]
    of_the_original = [("state", place) for place in ("/checkpoint", "/output", "/datasets")]
    writable = {("state", "/var/lib/mlbench"), ("tmp", "/tmp"), ("shm", "/dev/shm")}
    assert sorted(mounts) == sorted({*writable, *of_the_original, ("agent", "/run/mlbench")})
    read_only = [mount["name"] for mount in worker["volumeMounts"] if mount.get("readOnly")]
    assert read_only == ["agent"]
    assert "nvidia.com/gpu" not in json.dumps(manifest), "the controller requests GPUs"


def test_workers_call_the_services_port(render: Render) -> None:
    args = worker_spec(render("master.service.port=8080"))["containers"][0]["args"]
    assert args[args.index("--master") + 1] == "http://r-mlbench-master:8080"


def test_the_master_accepts_its_host_names(render: Render) -> None:
    documents = render(
        "master.ingress.enabled=true",
        "master.ingress.host=mlbench.example.org",
        "master.ingress.tlsSecret=tls",
        "master.allowedHosts={bench.internal}",
    )
    api, _ = master_containers(documents)
    environ = environment(api)
    assert environ["MLBENCH_URL"] == "https://mlbench.example.org"
    assert set(environ["MLBENCH_ALLOWED_HOSTS"].split(",")) == {
        "r-mlbench-master",
        "r-mlbench-master.ns",
        "r-mlbench-master.ns.svc",
        "r-mlbench-master.ns.svc.cluster.local",
        "mlbench.example.org",
        "bench.internal",
    }


def test_an_ingress_may_have_a_path(render: Render) -> None:
    documents = render(
        "master.ingress.enabled=true",
        "master.ingress.host=lab.example.org",
        "master.ingress.path=/mlbench",
        "master.trustedProxies={10.0.0.0/8,fd00::1}",
    )
    (ingress,) = find_documents(documents, "Ingress")
    (rule,) = ingress["spec"]["rules"]
    assert [path["path"] for path in rule["http"]["paths"]] == ["/mlbench"]
    environ = environment(master_containers(documents)[0])
    assert environ["MLBENCH_URL"] == "http://lab.example.org/mlbench"
    assert environ["MLBENCH_TRUSTED_PROXIES"] == "10.0.0.0/8,fd00::1"
    settings = Settings.from_environ(environ | {"MLBENCH_TOKEN": "t", "MLBENCH_AGENT_SECRET": "s"})
    assert settings.proxies.root_path == "/mlbench"
    assert "lab.example.org" in settings.allowed_hosts


def test_the_controller_gets_manifest_owner_and_an_existing_grafana(render: Render) -> None:
    api, controller = master_containers(render("limits.bandwidth=100", *A_GRAFANA_OF_YOURS))
    environ = environment(controller)
    assert (
        environ.items()
        >= {
            "MLBENCH_POOL": "kubernetes",
            "MLBENCH_NAMESPACE": "ns",
            "MLBENCH_OWNER": "r-mlbench-master",
            "MLBENCH_WORKER_MANIFEST": "/etc/mlbench/worker.json",
            "MLBENCH_LIMIT_BANDWIDTH": "100",
            "MLBENCH_PROMETHEUS_URL": "http://mlbench:$(MLBENCH_PROMETHEUS_PASSWORD)"
            "@r-mlbench-prometheus:9090",
            "GRAFANA_URL": "http://g:3000",
        }.items()
    )
    assert "GRAFANA_TOKEN" in environ
    assert "GRAFANA_URL" not in environment(api)
    # Only the bundled Grafana needs its password, because its dashboards are files.
    assert not [
        name for c in master_containers(render()) for name in environment(c) if "GRAFANA" in name
    ]


def test_a_password_precedes_the_variables_that_contain_it(render: Render) -> None:
    """Kubernetes expands only variables that are defined earlier."""
    for container in master_containers(render(*A_GRAFANA_OF_YOURS)):
        names = [entry["name"] for entry in container["env"]]
        holders = [
            entry["name"]
            for entry in container["env"]
            if "$(MLBENCH_PROMETHEUS_PASSWORD)" in entry.get("value", "")
        ]
        assert "MLBENCH_PROMETHEUS_URL" in holders
        password = names.index("MLBENCH_PROMETHEUS_PASSWORD")
        assert all(password < names.index(holder) for holder in holders)


def test_grafana_gets_the_password_separately_from_the_address(render: Render) -> None:
    """Everyone who can view dashboards can read the address."""
    (container,) = pod_spec(render(), "r-mlbench-grafana")["containers"]
    environ = environment(container)
    assert environ["MLBENCH_PROMETHEUS_URL"] == "http://r-mlbench-prometheus:9090"
    assert (environ["MLBENCH_PROMETHEUS_BASIC_AUTH"], environ["MLBENCH_PROMETHEUS_USER"]) == (
        "true",
        "mlbench",
    )
    assert "MLBENCH_PROMETHEUS_PASSWORD" in environ
    assert environ["GF_SECURITY_ALLOW_EMBEDDING"] == "true", "the web pages embed its panels"


def test_volume_claims_are_deleted_with_the_release(render: Render) -> None:
    documents = render()
    claims = {
        claim["metadata"]["name"] for claim in find_documents(documents, "PersistentVolumeClaim")
    }
    assert claims == {"r-mlbench-archive", "r-mlbench-master", "r-mlbench-prometheus"}
    for stateful_set in find_documents(documents, "StatefulSet"):
        assert "volumeClaimTemplates" not in stateful_set["spec"]


def test_archives_in_s3_need_no_volume(render: Render) -> None:
    documents = render("archive.url=s3://bucket/runs", "archive.days=30")
    assert not find_documents(documents, "PersistentVolumeClaim", "r-mlbench-archive")
    pod = pod_spec(documents, "r-mlbench-master")
    assert "archive" not in {volume["name"] for volume in pod["volumes"]}
    for container in pod["containers"]:
        variables = environment(container)
        assert variables["MLBENCH_ARCHIVE"] == "s3://bucket/runs"
        assert variables["MLBENCH_ARCHIVE_DAYS"] == "30"


@pytest.mark.parametrize("changed", ["limits.cpu=2", "worker.image.tag=next"])
def test_changed_worker_values_restart_the_master(helm: Helm, changed: str) -> None:
    def annotations(*options: str) -> Any:
        documents = helm.render("1.31.0", *options)
        (master,) = find_documents(documents, "Deployment", "r-mlbench-master")
        return master["spec"]["template"]["metadata"]["annotations"]

    assert annotations("--set", changed) != annotations()
    assert annotations() == annotations(), "random tokens must not cause a restart"


def test_dashboards_are_those_of_the_repository(render: Render) -> None:
    documents = render("grafana.enabled=false", "grafana.sidecar.enabled=true")
    labelled = [
        config["data"]
        for config in find_documents(documents, "ConfigMap")
        if config["metadata"]["labels"].get("grafana_dashboard") == "1"
    ]
    folder = CHART.parents[1] / "grafana" / "dashboards"
    dashboards = {name: json.loads(text) for data in labelled for name, text in data.items()}
    assert dashboards == {file.name: json.loads(file.read_text()) for file in folder.glob("*.json")}
