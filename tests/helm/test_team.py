"""The chart for a team: ingress with TLS, single sign-on, backups."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from helm.check.rendering import VALUES, Document, find_documents
from mlbench_master.settings import Settings
from tests.helm.conftest import Render
from tests.helm.pods import environment, master_containers, pod_spec


@pytest.fixture(scope="module")
def documents(render: Render) -> list[Document]:
    return render(file=VALUES / "team.yaml")


def _container(documents: list[Document], pod: str, name: str) -> Any:
    spec = pod_spec(documents, pod)
    everything = [*spec.get("initContainers", ()), *spec["containers"]]
    (container,) = (container for container in everything if container["name"] == name)
    return container


def test_the_ingress_uses_the_tls_secret_of_cert_manager(
    documents: list[Document],
) -> None:
    (ingress,) = find_documents(documents, "Ingress")
    assert ingress["spec"]["tls"] == [{"secretName": "mlbench-tls", "hosts": ["ml.example.org"]}]
    annotations = ingress["metadata"]["annotations"]
    assert annotations["cert-manager.io/cluster-issuer"] == "letsencrypt"
    api, _ = master_containers(documents)
    assert environment(api)["MLBENCH_URL"] == "https://ml.example.org/mlbench"


def test_an_ingress_may_have_no_tls(render: Render) -> None:
    values = ("master.ingress.enabled=true", "master.ingress.host=ml.example.org")
    (ingress,) = find_documents(render(*values), "Ingress")
    assert "tls" not in ingress["spec"]


# --- Single sign-on. ---


def test_the_ingress_routes_to_oauth2_proxy_and_that_to_the_api(documents: list[Document]) -> None:
    (ingress,) = find_documents(documents, "Ingress")
    (path,) = ingress["spec"]["rules"][0]["http"]["paths"]
    (service,) = find_documents(documents, "Service", path["backend"]["service"]["name"])
    ports = {port["name"]: port for port in service["spec"]["ports"]}
    assert ports["http"]["port"] == 80, "agents and clients in the cluster call the API directly"
    target = ports[path["backend"]["service"]["port"]["name"]]["targetPort"]
    proxy = _container(documents, "r-mlbench-master", "sign-in")
    (port,) = proxy["ports"]
    assert port["name"] == target
    assert f"--http-address=0.0.0.0:{port['containerPort']}" in proxy["args"]
    assert "--upstream=http://127.0.0.1:80" in proxy["args"]
    assert "--redirect-url=https://ml.example.org/mlbench/oauth2/callback" in proxy["args"]
    assert proxy["envFrom"] == [{"secretRef": {"name": "mlbench-sign-in"}}]
    (policy,) = find_documents(documents, "NetworkPolicy", "r-mlbench-master")
    assert {"port": target} in policy["spec"]["ingress"][0]["ports"]


def test_only_oauth2_proxy_names_users(render: Render, documents: list[Document]) -> None:
    """Workers can reach the API, so a request from a cluster address must not name a user."""
    api, controller = master_containers(documents)
    environ = environment(api) | {"MLBENCH_TOKEN": "t", "MLBENCH_AGENT_SECRET": "s"}
    settings = Settings.from_environ({key: value for key, value in environ.items() if value})
    assert [str(network) for network in settings.proxies.sign_in] == ["127.0.0.1/32"]
    assert "MLBENCH_SIGN_IN_PROXIES" not in environment(controller)
    assert "MLBENCH_SIGN_IN_PROXIES" not in environment(master_containers(render())[0])


@pytest.mark.parametrize(
    ("path", "passes"),
    [
        ("/mlbench/api/runs", True),
        ("/mlbench/runs/1", False),
        ("/mlbench/api", False),
        ("/other/mlbench/api/runs", False),
    ],
)
def test_clients_with_a_token_bypass_oauth2_proxy(
    documents: list[Document], path: str, passes: bool
) -> None:
    args = _container(documents, "r-mlbench-master", "sign-in")["args"]
    (route,) = (arg.partition("=")[2] for arg in args if arg.startswith("--skip-auth-route="))
    assert bool(re.search(route, path)) is passes
    assert {"--pass-user-headers=true", "--skip-auth-strip-headers=true"} <= {*args}


# --- Backups. ---


def test_the_backup_runs_on_the_masters_node_and_mounts_its_volumes(
    documents: list[Document],
) -> None:
    (job,) = find_documents(documents, "CronJob")
    assert (job["apiVersion"], job["spec"]["schedule"]) == ("batch/v1", "0 3 * * *")
    spec = pod_spec(documents, "r-mlbench-backup")
    (term,) = spec["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (master,) = find_documents(documents, "Deployment", "r-mlbench-master")
    labels = master["spec"]["template"]["metadata"]["labels"]
    assert term["labelSelector"]["matchLabels"].items() <= labels.items()
    claims = {
        volume["name"]: volume["persistentVolumeClaim"]["claimName"] for volume in spec["volumes"]
    }
    backed_up = {"state": "r-mlbench-master", "archive": "r-mlbench-archive"}
    assert claims == {**backed_up, "backups": "backups"}


def test_an_older_kubernetes_gets_the_beta_version_of_cron_job(render: Render) -> None:
    documents = render(file=VALUES / "team.yaml", kube_version="1.20.2")
    (job,) = find_documents(documents, "CronJob")
    assert job["apiVersion"] == "batch/v1beta1"


def test_without_a_schedule_nothing_is_backed_up_or_restored(render: Render) -> None:
    documents = render()
    assert find_documents(documents, "CronJob") == []
    assert "initContainers" not in pod_spec(documents, "r-mlbench-master")


@pytest.mark.parametrize("has_runs", [True, False])
def test_a_backup_is_restored_only_if_the_master_has_no_runs(
    documents: list[Document], tmp_path: Path, has_runs: bool
) -> None:
    container = _container(documents, "r-mlbench-master", "restore")
    home, programs = tmp_path / "home", tmp_path / "bin"
    for folder in (home, programs):
        folder.mkdir()
    if has_runs:
        (home / "mlbench.db").touch()
    (programs / "mlbench").write_text('#!/bin/sh\necho "$@"\n')
    (programs / "mlbench").chmod(0o755)
    environ = {"PATH": f"{programs}:{os.environ['PATH']}", "MLBENCH_HOME": str(home)}
    process = subprocess.run(
        container["command"], check=True, capture_output=True, text=True, env=environ
    )
    assert process.stdout == ("" if has_runs else "restore /backups/mlbench-1.zip\n")
