"""Exporter process: ``python -m mlbench_exporter.app --port N`` serves /metrics.

It serves the pods of the local stack whose home folder is $MLBENCH_HOME; with ``--kubelet``, the
worker pods of one release on one node of a cluster instead. It adds the pressure and the GPUs of
the machine, if the machine has them. Exit codes: 0 on SIGTERM or SIGINT, 1 if it cannot listen.
"""

import argparse
import logging
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector

from mlbench.local.daemon import configure_logging
from mlbench.local.home import Home
from mlbench.local.serving import serve_metrics
from mlbench_exporter import gpu, pressure
from mlbench_exporter.cadvisor import WorkerPods
from mlbench_exporter.collector import UsageCollector
from mlbench_exporter.gpu import GpuSource
from mlbench_exporter.kubelet import KubeletSource
from mlbench_exporter.pressure import PressureSource
from mlbench_exporter.processes import ProcessSource

if TYPE_CHECKING:
    from mlbench_exporter.exported_series import SeriesSource

log = logging.getLogger("mlbench_exporter")

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="exporter", description="Resource use of worker pods.")
    parser.add_argument("--port", type=int, required=True, help="0: any free port")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--node", default=socket.gethostname(), help="name of this node")

    cluster = parser.add_argument_group("in a cluster")
    cluster.add_argument("--kubelet", metavar="HOST", help="read the kubelet at this address")
    cluster.add_argument("--kubelet-port", type=int, default=10250, metavar="PORT")
    cluster.add_argument("--release", help="release of the worker pods; required with --kubelet")
    cluster.add_argument(
        "--service-account",
        type=Path,
        default=Path("/var/run/secrets/kubernetes.io/serviceaccount"),
        metavar="FOLDER",
        help="folder with token, namespace and ca.crt (%(default)s)",
    )
    cluster.add_argument(
        "--kubelet-ca",
        type=Path,
        metavar="FILE",
        help="CA certificates of the kubelet (the service account's ca.crt)",
    )
    cluster.add_argument(
        "--kubelet-insecure",
        action="store_true",
        help="do not verify the kubelet's certificate, so that an impostor could get the token",
    )
    cluster.add_argument(
        "--kubelet-timeout",
        type=float,
        default=4.0,
        metavar="SECONDS",
        help="less than Prometheus's scrape timeout (%(default)s)",
    )
    arguments = parser.parse_args()
    if arguments.kubelet and not arguments.release:
        parser.error("--kubelet: needs --release")
    return arguments


def main() -> int:
    """Serve until SIGTERM or SIGINT, and return the exit code."""
    arguments = _parse_arguments()
    configure_logging()

    # Blocked before threads start, so that the signals wait until sigwait accepts them.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    home, node = Home.from_environ().root, arguments.node
    sources: list[SeriesSource] = []
    if arguments.kubelet:
        account: Path = arguments.service_account
        try:
            namespace = (account / "namespace").read_text().strip()
        except OSError as error:
            log.error("cannot read the service account: %s", error)
            return 1
        ca = None if arguments.kubelet_insecure else arguments.kubelet_ca or account / "ca.crt"
        sources.append(
            KubeletSource(
                arguments.kubelet,
                arguments.kubelet_port,
                account / "token",
                ca,
                arguments.kubelet_timeout,
                WorkerPods(namespace, arguments.release),
                node,
            )
        )
    else:
        sources.append(ProcessSource(home, node))
    if pressure.is_counted():
        sources.append(PressureSource(node))
    if gpu.driver_is_present():
        sources.append(GpuSource(home, node))
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(UsageCollector(sources))
    try:
        server = serve_metrics(arguments.port, arguments.host, registry)
    except OSError as error:
        log.error("cannot listen on %s:%d: %s", arguments.host, arguments.port, error)
        return 1
    log.info("serving http://%s:%d/metrics", arguments.host, server.server_port)

    signal.sigwait(STOP_SIGNALS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
