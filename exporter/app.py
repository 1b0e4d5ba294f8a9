"""The exporter's process: ``python -m exporter.app --port N`` serves /metrics until told to stop.

It serves the pods of the local stack whose home folder is $MLBENCH_HOME. It ends with exit code
0 on SIGTERM or SIGINT, and with 1 where it cannot listen.
"""

import argparse
import logging
import signal
import socket
import sys
from pathlib import Path

from prometheus_client import CollectorRegistry, start_http_server

from exporter.collector import UsageCollector
from exporter.sources.processes import ProcessSource
from exporter.usage import Source
from mlbench.home import Home

log = logging.getLogger("exporter")

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def create_sources(home: Path) -> list[Source]:
    """Return every place where usage is read: a new source is added here."""
    return [ProcessSource(home, node=socket.gethostname())]


def main() -> int:
    """Serve until a signal asks to stop; return the exit code."""
    parser = argparse.ArgumentParser(prog="exporter", description="Resource use of worker pods.")
    parser.add_argument("--port", type=int, required=True, help="0 for any that is free")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")

    # Blocked, before there are other threads, the signals wait until sigwait takes them.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    registry = CollectorRegistry()
    registry.register(UsageCollector(create_sources(Home.from_environ().root)))
    try:
        server, thread = start_http_server(arguments.port, arguments.host, registry)
    except OSError as error:
        log.error("cannot listen on %s:%d: %s", arguments.host, arguments.port, error)
        return 1
    log.info("serving http://%s:%d/metrics", arguments.host, server.server_port)

    signal.sigwait(STOP_SIGNALS)
    server.shutdown()
    thread.join()
    server.server_close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
