"""The real exporter process: its metrics, options and shutdown."""

import os
import signal
import socket
from pathlib import Path

import pytest

from tests.support.certificates import Certificates
from tests.support.exporting import COMMAND, exporter, promtool_says, values
from tests.support.kubelet_server import NAMESPACE, RELEASE, KubeletServer
from tests.support.processes import run_text

from .conftest import StartPod

UP = "mlbench_exporter_source_up"


def test_the_pods_of_a_home_folder_are_served(
    start_pod: StartPod, tmp_path: Path, promtool: Path
) -> None:
    start_pod("local-mlbench-worker-0")
    start_pod("local-mlbench-worker-1", home=tmp_path / "other")

    with exporter(tmp_path) as served:
        text = served.scrape()

    node = os.uname().nodename
    labels = ("namespace", "pod", "container", "node")
    assert values(text, "container_processes", *labels) == {
        ("local", "local-mlbench-worker-0", "worker", node): 1
    }
    assert values(text, "machine_cpu_cores", "node") == {(node,): os.cpu_count()}
    assert values(text, UP, "source")["processes",] == 1
    assert promtool_says(promtool, text) == ""


def in_cluster(server: KubeletServer, account: Path) -> tuple[str, ...]:
    return (
        *("--kubelet", "127.0.0.1", "--kubelet-port", str(server.server_port)),
        *("--node", "node1", "--release", RELEASE, "--service-account", str(account)),
    )


def test_the_pods_of_a_kubelet_are_served(
    server: KubeletServer, account: Path, tmp_path: Path, promtool: Path
) -> None:
    with exporter(tmp_path, in_cluster(server, account)) as served:
        text = served.scrape()

    labels = ("namespace", "pod", "container", "node")
    assert values(text, "container_processes", *labels) == {
        (NAMESPACE, "r1-mlbench-worker-0", "worker", "node1"): 2,
        (NAMESPACE, "r1-mlbench-worker-0", "sidecar", "node1"): 1,
        (NAMESPACE, "r1-mlbench-worker-1", "worker", "node1"): 1,
    }
    assert values(text, "machine_cpu_cores", "node") == {("node1",): 2}
    assert values(text, UP, "source")["kubelet",] == 1
    assert promtool_says(promtool, text) == ""


def test_a_kubelets_certificate_is_verified_by_default(
    server: KubeletServer, account: Path, tmp_path: Path, certificates: Certificates
) -> None:
    (account / "ca.crt").write_bytes(certificates.certificate.read_bytes())
    options = in_cluster(server, account)
    up = []
    for more in ((), ("--kubelet-ca", str(certificates.ca)), ("--kubelet-insecure",)):
        with exporter(tmp_path, (*options, *more)) as served:
            up.append(values(served.scrape(), UP, "source")["kubelet",])

    assert up == [0, 1, 1]


@pytest.mark.parametrize(
    ("options", "code", "problem"),
    [
        (["0", "--kubelet", "127.0.0.1"], 2, "--kubelet: needs --release"),
        (["0", "--kubelet", "h", "--release", "r", "--service-account", "/no"], 1, "/no/namespace"),
        (["PORT"], 1, "cannot listen on 127.0.0.1:PORT"),
    ],
    ids=["no release", "no account", "port in use"],
)
def test_an_impossible_start_is_explained(options: list[str], code: int, problem: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as in_use:
        port = str(in_use.getsockname()[1])
        done = run_text([*COMMAND, *(option.replace("PORT", port) for option in options)])

    assert done.returncode == code
    assert problem.replace("PORT", port) in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(tmp_path: Path, stop: signal.Signals) -> None:
    with exporter(tmp_path) as served:
        served.scrape()
        served.process.send_signal(stop)
        _, rest = served.process.communicate(timeout=5)

    assert (served.process.returncode, rest) == (0, "")
