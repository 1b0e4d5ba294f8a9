"""Permissions: pods, service accounts, roles, secrets and the network."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from helm.check.rendering import (
    CHART,
    VALUES,
    Document,
    Helm,
    find_documents,
    knows_operator,
    values_files,
    worker_manifest,
)
from mlbench_master.pools.manifests import _AGENT_IN_ANY_IMAGE
from tests.helm.conftest import Render
from tests.helm.pods import containers, pod_specs, worker_spec

# Volume types that the chart uses, out of those that the restricted level allows.
_RESTRICTED_VOLUMES = {"configMap", "emptyDir", "persistentVolumeClaim", "projected", "secret"}
_DEVICE_PLUGIN = "r-mlbench-nvidia-device-plugin"


@pytest.fixture(params=values_files(), ids=lambda file: file.stem, scope="module")
def documents(render: Render, request: pytest.FixtureRequest) -> list[Document]:
    return render(file=request.param, operator=knows_operator(request.param))


def test_every_pod_is_restricted(documents: list[Document]) -> None:
    for name, spec in pod_specs(documents):
        security = spec["securityContext"]
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}, name
        if name != _DEVICE_PLUGIN:  # its socket is in a folder of root
            assert (security["runAsNonRoot"], security["runAsUser"]) == (True, 10001), name
            kinds = {key for volume in spec["volumes"] for key in volume} - {"name"}
            optional = {"gcePersistentDisk"} if name == "r-mlbench-worker" else set()
            assert kinds <= _RESTRICTED_VOLUMES | optional, name
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys(), name
        for container in containers(spec):
            _check_container(container)


def _check_container(container: Any) -> None:
    security, name = container["securityContext"], container["name"]
    assert security["allowPrivilegeEscalation"] is False, name
    assert security["readOnlyRootFilesystem"] is True, name
    capabilities = security["capabilities"]
    assert capabilities.pop("drop") == ["ALL"], name
    if name == "network":
        assert capabilities == {"add": ["NET_ADMIN"]}
    else:
        assert (capabilities, security.keys() & {"runAsUser", "privileged"}) == ({}, set()), name


def test_the_network_container_exists_only_if_requested(render: Render) -> None:
    documents = render("limits.bandwidth=20")
    always = worker_spec(documents)["initContainers"]
    assert [container["name"] for container in always] == ["token"]
    network = worker_manifest(documents)["initContainers"]["network"]
    assert network["command"] == ["python3", "-P", "-m", "mlbench.contract.shaping"]
    assert not {"volumeMounts", "env"} & network.keys()


def test_service_account_tokens_are_mounted_only_where_needed(documents: list[Document]) -> None:
    mounted = {name for name, spec in pod_specs(documents) if spec["automountServiceAccountToken"]}
    assert mounted <= {"r-mlbench-exporter", "r-mlbench-prometheus"}
    for name, spec in pod_specs(documents):
        if any(
            "projected" in volume and volume["name"] == "service-account"
            for volume in spec["volumes"]
        ):
            assert name == "r-mlbench-master"
            holders = [
                container["name"]
                for container in spec["containers"]
                if any(
                    mount["name"] == "service-account"
                    for mount in container.get("volumeMounts", ())
                )
            ]
            assert holders == ["controller"]


@pytest.mark.parametrize("max_workers", [2, 200])
def test_roles_grant_only_the_required_permissions(render: Render, max_workers: int) -> None:
    documents = render(f"limits.workers={max_workers}")
    make = ["get", "list", "watch", "create", "patch"]
    pods = [f"r-mlbench-worker-{number}" for number in range(max_workers)]
    rights = [
        # Exporter: its only permission outside the namespace.
        ("nodes/metrics", None, ["get"]),
        # Master.
        ("statefulsets", ["r-mlbench-worker"], make),
        ("services", ["r-mlbench-worker"], make),
        ("pods", None, ["list", "watch"]),
        ("pods", pods, ["delete"]),
        ("deployments", ["r-mlbench-master"], ["get"]),
        # Prometheus.
        ("pods", None, ["get", "list", "watch"]),
    ]
    roles = [role for kind in ("ClusterRole", "Role") for role in find_documents(documents, kind)]
    assert rights == [
        (resource, rule.get("resourceNames"), rule["verbs"])
        for role in sorted(roles, key=lambda role: (role["kind"], role["metadata"]["name"]))
        for rule in role["rules"]
        for resource in rule["resources"]
    ]
    (binding,) = find_documents(documents, "ClusterRoleBinding")
    account = {"kind": "ServiceAccount", "name": "r-mlbench-exporter", "namespace": "ns"}
    assert binding["subjects"] == [account]


def test_no_value_is_a_secret() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for path in _paths(values):
        assert not re.search(r"(?i)(password|token)", path), path
    assert values["auth"] == {"existingSecret": ""}


def _paths(value: Any, path: str = "") -> list[str]:
    if not isinstance(value, dict):
        return [path]
    return [
        inner_path for key, inner in value.items() for inner_path in _paths(inner, f"{path}.{key}")
    ]


def test_generated_tokens_differ(helm: Helm) -> None:
    secrets = [
        find_documents(helm.render("1.31.0"), "Secret", "r-mlbench")[0]["data"] for _ in range(2)
    ]
    assert secrets[0].keys() == {
        *("token", "agent-secret", "grafana-password"),
        *("prometheus-password", "prometheus-web.yml"),
    }
    assert len({value for secret in secrets for value in secret.values()}) == 10


def test_existing_secrets_are_used_instead(render: Render) -> None:
    documents = render("auth.existingSecret=mine", "database.existingSecret=postgres")
    assert find_documents(documents, "Secret") == []
    assert {(name, variable) for name, variable, _ in _secret_variables(documents)} == {
        ("mine", "MLBENCH_TOKEN"),
        ("mine", "MLBENCH_AGENT_SECRET"),
        ("mine", "MLBENCH_PROMETHEUS_PASSWORD"),
        ("mine", "GF_SECURITY_ADMIN_PASSWORD"),
        ("postgres", "DATABASE_URL"),
    }
    mounted = {
        volume["secret"]["secretName"]
        for _, spec in pod_specs(documents)
        for volume in spec["volumes"]
        if "secret" in volume
    }
    assert mounted == {"mine"}


def test_each_container_gets_only_the_secrets_that_it_needs(render: Render) -> None:
    """A worker's main container, which can run any image, has no access to secrets."""
    secrets: dict[str, set[str]] = {}
    for _, variable, container in _secret_variables(render("grafana.enabled=false")):
        secrets.setdefault(container, set()).add(variable)
    assert secrets == {
        "api": {"MLBENCH_TOKEN", "MLBENCH_AGENT_SECRET", "MLBENCH_PROMETHEUS_PASSWORD"},
        "controller": {"MLBENCH_PROMETHEUS_PASSWORD"},
        "token": {"MLBENCH_AGENT_SECRET"},
        "digits": {"MLBENCH_TOKEN"},
    }


def test_only_the_controller_gets_the_webhook(render: Render) -> None:
    receivers = [
        (secret, container)
        for secret, variable, container in _secret_variables(render("notify.existingSecret=slack"))
        if variable == "MLBENCH_NOTIFY_URL"
    ]
    assert receivers == [("slack", "controller")]


def _secret_variables(documents: list[Document]) -> Iterator[tuple[str, str, str]]:
    """Yield each Secret that is used by a variable, with the variable and the container."""
    for _, spec in pod_specs(documents):
        for container in containers(spec):
            for entry in container.get("env", ()):
                if "secretKeyRef" in entry.get("valueFrom", {}):
                    secret = entry["valueFrom"]["secretKeyRef"]["name"]
                    yield secret, entry["name"], container["name"]


def test_the_agents_folder_is_in_memory_and_read_only(render: Render) -> None:
    pod = worker_spec(render())
    (volume,) = (volume for volume in pod["volumes"] if volume["name"] == "agent")
    assert volume["emptyDir"] == {"medium": "Memory", "sizeLimit": "8Mi"}
    bring = worker_manifest(render())["initContainers"]["agent"]
    assert bring["command"] == ["cp", "/opt/mlbench/agent.pyz", _AGENT_IN_ANY_IMAGE[-1]]
    (init,) = pod["initContainers"]
    assert init["command"] == [
        "python3",
        "-P",
        "-m",
        "mlbench.contract.pod_token",
        "/run/mlbench/token",
    ]
    assert init["image"] == "mlbench/worker:0.1.0"


def test_memory_and_disk_of_every_container_are_limited(documents: list[Document]) -> None:
    for name, spec in pod_specs(documents):
        for container in containers(spec):
            resources = container["resources"]
            place = f"{name}: {container['name']}"
            assert {"memory", "ephemeral-storage"} <= resources["limits"].keys(), place
            # Without a request, Kubernetes would request as much as the limit.
            assert {"memory", "ephemeral-storage"} <= resources["requests"].keys(), place
        for volume in spec["volumes"]:
            if "emptyDir" in volume:
                assert volume["emptyDir"]["sizeLimit"], f"{name}: {volume['name']}"


def test_a_database_url_is_only_in_a_secret(render: Render) -> None:
    url = "postgresql://me:p4ssw0rd@db/mlbench"
    holders = [
        document["kind"]
        for document in render(f"database.url={url}")
        if "p4ssw0rd" in yaml.safe_dump(document)
    ]
    assert holders == ["Secret"]


def test_workers_cannot_reach_metadata_services_or_private_networks(render: Render) -> None:
    (policy,) = find_documents(render(), "NetworkPolicy", "r-mlbench-worker")
    (block,) = (
        peer["ipBlock"]
        for rule in policy["spec"]["egress"]
        for peer in rule.get("to", ())
        if "ipBlock" in peer
    )
    assert {"169.254.0.0/16", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"} <= set(
        block["except"]
    )
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]


def test_workers_can_query_only_the_clusters_dns(render: Render) -> None:
    def dns(*values: str) -> list[Any]:
        (policy,) = find_documents(render(*values), "NetworkPolicy", "r-mlbench-worker")
        dns_rules = [rule for rule in policy["spec"]["egress"] if "53" in str(rule.get("ports"))]
        assert all(rule["to"] for rule in policy["spec"]["egress"]), (
            "every rule must name its destinations"
        )
        return [peer for rule in dns_rules for peer in rule["to"]]

    assert dns() == [
        {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
            "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
        }
    ]
    assert dns("networkPolicy.dns[0].ipBlock.cidr=169.254.20.10/32") == [
        {"ipBlock": {"cidr": "169.254.20.10/32"}}
    ]


def test_only_the_master_and_grafana_can_reach_prometheus(render: Render) -> None:
    documents = render(file=VALUES / "sidecar.yaml")
    (policy,) = find_documents(documents, "NetworkPolicy", "r-mlbench-prometheus")
    (rule,) = policy["spec"]["ingress"]
    *ours, theirs = rule["from"]
    assert [peer["podSelector"]["matchLabels"]["component"] for peer in ours] == [
        "master",
        "grafana",
    ]
    assert theirs["namespaceSelector"] == {
        "matchLabels": {"kubernetes.io/metadata.name": "monitoring"}
    }


def test_every_component_has_a_network_policy_unless_disabled(render: Render) -> None:
    policies = find_documents(render(), "NetworkPolicy")
    selected = {policy["spec"]["podSelector"]["matchLabels"]["component"] for policy in policies}
    assert selected == {"master", "worker", "exporter", "prometheus", "grafana"}
    assert find_documents(render("networkPolicy.enabled=false"), "NetworkPolicy") == []
