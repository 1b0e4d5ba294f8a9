"""Runs on two worker pods, started from outside the cluster in different ways."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mlbench import ApiClient
from mlbench.local.discovery import ServiceLocation, find_pod
from tests.e2e.reaching import forwarded, listens
from tests.e2e.release import CORES, Release
from tests.support.processes import run_text

_ORIGINAL = Path(__file__).with_name("original_run.py")
_MLBENCH = Path(sys.executable).with_name("mlbench")


@pytest.fixture(scope="module")
def environ(release: Release) -> Iterator[dict[str, str]]:
    """Environment of a user according to the chart's NOTES, with a forwarded port."""
    with forwarded(release.name, release.service, 80) as url:
        yield {**os.environ, "MLBENCH_URL": url, "MLBENCH_TOKEN": release.token()}


def test_a_run_through_the_command_line(release: Release, environ: dict[str, str]) -> None:
    order = ("digits", "--light", "--name", "command-line", "--workers", "2")
    process = _mlbench(environ, "run", *order)
    assert process.returncode == 0, process.stderr
    match = re.match(r"run (\d+) \(command-line\): target reached in .*\n", process.stdout)
    assert match, process.stdout
    assert re.search(r"^Time to target \(training\)  +[\d.]+ s", process.stdout, re.MULTILINE)
    assert environ["MLBENCH_TOKEN"] not in process.stdout + process.stderr

    run = release.finish(release.run(int(match[1])))
    assert [rank.pod for rank in run.ranks] == release.kept_workers
    manifest = release.client.get_manifest(run.id).result().value
    [machine] = manifest.machines
    assert machine.git, "the image must have its commit"
    assert re.match("[0-9a-f]{40}", machine.git.commit)
    assert all("sha256:" in (rank.image or "") for rank in manifest.ranks)

    status = json.loads(_mlbench(environ, "status", "--json").stdout)
    assert "command-line" in {run["name"] for run in status["runs"]}
    assert {pod["name"] for pod in status["pods"]} >= set(release.kept_workers)


def test_a_local_file_is_refused(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('here')")
    process = _mlbench(environ, "run", str(tmp_path / "train.py"))
    assert (process.returncode, process.stdout) == (2, "")
    assert "--image" in process.stderr


def _mlbench(environ: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_text([_MLBENCH, *arguments], env=environ, stdin=subprocess.DEVNULL, timeout=300)


@pytest.fixture(scope="module")
def cluster_ip(release: Release) -> str:
    """Cluster IP of the master's service, which both clients use without a port-forward."""
    [service] = release.objects("service", "master")
    address: str = service["spec"]["clusterIP"]
    if not listens(address, 80):
        pytest.skip("the addresses of this cluster's services lead nowhere from this machine")
    return address


def test_our_client_finds_the_master(release: Release, cluster_ip: str) -> None:
    with ApiClient(in_cluster=False, k8s_namespace=release.name, token=release.token()) as client:
        pods = client.get_worker_pods().result().value
    assert {pod.name for pod in pods} == set(release.pods("worker"))


def test_the_client_finds_the_master_in_the_cluster(release: Release) -> None:
    # Like in a pod: with the port of the API, and the permissions of a pod.
    from kubernetes import config  # noqa: PLC0415 - only here

    config.load_kube_config()
    place = ServiceLocation(release.name, "component=master,app=mlbench")
    url = find_pod(place, load_config=False).url
    [pod] = release.pods("master").values()
    assert urlsplit(url).hostname == pod["status"]["podIP"]
    ask = f"from urllib.request import urlopen; print(urlopen('{url}/healthz').status)"
    assert release.kubectl("exec", release.kept_workers[0], "--", "python3", "-c", ask) == "200\n"


def test_the_original_client_finds_the_master_and_starts_a_run(
    release: Release, cluster_ip: str, tmp_path: Path
) -> None:
    """The original client sends no token, but `requests` takes one from the file in $NETRC."""
    netrc = tmp_path / "netrc"
    netrc.write_text(f"machine {cluster_ip} login mlbench password {release.token()}\n")
    netrc.chmod(0o600)
    environ = {**os.environ, "NETRC": str(netrc)}
    arguments = (release.name, release.images["worker"], str(CORES))
    process = run_text([os.environ["MLBENCH_CORE"], _ORIGINAL, *arguments], env=environ, timeout=60)
    assert process.returncode == 0, process.stderr
    ordered = json.loads(process.stdout)
    ended = release.finish(release.run(ordered["id"]))
    assert len(ended.ranks) == 2
    assert ended.num_cpus == CORES
