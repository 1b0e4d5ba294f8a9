"""Access to a service of the cluster, by its IP address or through a forwarded port."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.conftest import free_port
from tests.e2e.commands import run, wait_until

# A port-forward ends with its pod, so it is restarted in a loop.
_AGAIN_AND_AGAIN = "while :; do kubectl port-forward --namespace $1 $2 $3 >/dev/null; sleep 1; done"


@contextmanager
def reachable(namespace: str, service: str, port: int) -> Iterator[str]:
    """Yield the URL of a service: its cluster IP if reachable, otherwise a forwarded port."""
    address = run(
        *("kubectl", "--namespace", namespace, "get", "service", service),
        *("--output", "jsonpath={.spec.clusterIP}"),
    )
    if listens(address, port):
        yield f"http://{address}:{port}"
    else:
        with forwarded(namespace, service, port) as url:
            yield url


@contextmanager
def forwarded(namespace: str, service: str, port: int) -> Iterator[str]:
    """Forward a local port to a service and yield its URL; survives a replaced pod."""
    here = free_port()
    words = (namespace, f"service/{service}", f"{here}:{port}")
    process = subprocess.Popen(
        ["sh", "-c", _AGAIN_AND_AGAIN, "forward", *words],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_until(lambda: listens("127.0.0.1", here), bool, 60, f"{service} is forwarded")
        yield f"http://127.0.0.1:{here}"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def listens(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(5.0)
        return probe.connect_ex((host, port)) == 0
