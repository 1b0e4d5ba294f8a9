"""Cost of a scrape of the exporter: 200 pods of a kubelet, and local pods."""

import multiprocessing
import os
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import httpx
import psutil

from benchmarks.measure import Figure
from mlbench.contract import names
from tests.support import kubelet_server
from tests.support.certificates import make_certificates
from tests.support.exporting import Exporter, exporter
from tests.support.kubelet_server import RELEASE, TEXT

_PODS = 200
_OTHER_PODS = 50
_LOCAL_PODS = (16, 200)
_TIMES = 21

# A pod in the text of the real kubelet, which has more interfaces than most, and the disk of
# that kubelet's node.
_POD = 'namespace="team",pod="r1-mlbench-worker-1"'
_DISK = 'container="",device="/dev/vda",id="/",image="",name="",namespace="",pod=""'
_CONTAINER = f'container="worker",device="/dev/vda",id="/pod/disk",image="",name="",{_POD}'
_MORE_INTERFACES = 'interface="net'

# As Prometheus asks.
_HEADERS = {
    "Accept": "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5",
    "Accept-Encoding": "gzip",
}


def measure(folder: Path) -> list[Figure]:
    """Return milliseconds for a scrape: until it is answered, and of the exporter's CPU."""
    text = _node_text()
    with _kubelet(folder, text) as options, exporter(folder, options) as served:
        name = f"scrape of {_PODS} pods, kubelet of {len(text) / 1e6:.1f} MB"
        figures = _scrapes(name, served, _PODS)
    for pods in _LOCAL_PODS:
        with ExitStack() as stack:
            for number in range(pods):
                pod = f"{names.LOCAL_POD_PREFIX}{number}"
                environ = {names.ENV_HOME: str(folder), names.ENV_POD: pod}
                process = subprocess.Popen(["sleep", "infinity"], env=os.environ | environ)
                stack.callback(process.wait)
                stack.callback(process.kill)
            served = stack.enter_context(exporter(folder))
            figures += _scrapes(f"scrape of {pods} local pods", served, pods)
    return figures


def _node_text() -> bytes:
    """Return the answer of the kubelet of a full node: a recorded one, with lines of more pods.

    Each pod has the lines of a recorded pod (pod, sandbox, container), and the lines of a disk,
    which the recorded kubelet reported for its node only.
    """
    pods = [f'{RELEASE}-mlbench-worker-{number}"' for number in range(1, _PODS)]  # it has a 0
    pods += [f'another-{number}"' for number in range(_OTHER_PODS)]
    lines = []
    for line in TEXT.decode().replace("_sector_", "_bytes_").splitlines(keepends=True):
        if _MORE_INTERFACES in line:
            continue
        of_pod = line.replace(_DISK, _CONTAINER)
        if _POD in of_pod:
            lines += [of_pod.replace('r1-mlbench-worker-1"', pod) for pod in pods]
        if of_pod != line or _POD not in line:
            lines.append(line)
    return "".join(lines).encode()


@contextmanager
def _kubelet(folder: Path, text: bytes) -> Iterator[Sequence[str]]:
    """Serve a text as a kubelet does, and give the options with which the exporter reads it."""
    certificates = make_certificates(folder)
    server = kubelet_server.KubeletServer(certificates)
    server.answer = partial(kubelet_server.whole, text=text)
    # A separate process, so that its CPU time does not count as the exporter's.
    process = multiprocessing.get_context("fork").Process(target=server.serve_forever)
    process.start()
    account = kubelet_server.make_account(folder / "account", certificates, server.token)
    yield (
        *("--kubelet", "127.0.0.1", "--kubelet-port", str(server.server_port)),
        *("--node", "node1", "--release", RELEASE, "--service-account", str(account)),
    )
    process.terminate()
    process.join()
    server.server_close()


def _scrapes(name: str, served: Exporter, pods: int) -> list[Figure]:
    process = psutil.Process(served.process.pid)
    milliseconds, cpu_ms = [], []
    with httpx.Client(headers=_HEADERS, trust_env=False) as client:
        client.get(served.url)
        for _ in range(_TIMES):
            cpu_before, begin = sum(process.cpu_times()), time.perf_counter()
            answer = client.get(served.url)
            milliseconds.append(1000 * (time.perf_counter() - begin))
            cpu_ms.append(1000 * (sum(process.cpu_times()) - cpu_before))
            named = re.findall(r'^container_threads{.*pod="([^"]*)"', answer.text, re.MULTILINE)
            assert len(set(named)) == pods
    return [Figure(name, "ms", milliseconds), Figure(f"{name}: CPU of the exporter", "ms", cpu_ms)]
