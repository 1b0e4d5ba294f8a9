"""Start an agent: ``python -m mlbench_worker.agent``."""

import argparse
import os
from pathlib import Path

from prometheus_client import CollectorRegistry

from mlbench.contract import names, pod_token
from mlbench.local.daemon import configure_logging, on_termination
from mlbench.local.serving import serve_metrics
from mlbench_worker.agent.agent import Agent
from mlbench_worker.agent.master_client import MasterClient
from mlbench_worker.agent.metrics_endpoint import WorkerCollector
from mlbench_worker.agent.training_process import adopt_orphans, hide_from_others


def main() -> None:
    """Run until SIGTERM."""
    parser = argparse.ArgumentParser(prog="mlbench_worker.agent", description=__doc__)
    parser.add_argument("--pod", required=True, help="name of this worker pod")
    parser.add_argument("--folder", required=True, type=Path, help="where attempts are kept")
    parser.add_argument("--port", required=True, type=int, help="port of /metrics")
    parser.add_argument("--host", default="127.0.0.1", help="address of /metrics")
    parser.add_argument("--master", required=True, help="URL of the master")
    parser.add_argument("--token-file", required=True, type=Path, help="holds this pod's token")
    parser.add_argument(
        "--start-in",
        type=Path,
        default=Path.cwd(),
        help="where commands start unless they name a folder; by default the agent's own",
    )
    options = parser.parse_args()
    try:
        token = pod_token.read(options.token_file)
    except OSError as error:
        parser.error(f"cannot read the pod's token: {error}")

    configure_logging()
    adopt_orphans()
    # Only in a container: on a machine, the exporter has to read the worker's environment.
    if os.getpid() == 1:
        hide_from_others()
    collector = WorkerCollector(options.pod)
    registry = CollectorRegistry()
    registry.register(collector)
    serve_metrics(options.port, options.host, registry)
    agent = Agent(
        options.pod,
        options.folder,
        lambda: MasterClient(options.master, token),
        collector,
        start_in=options.start_in,
        pod_uid=os.environ.get(names.ENV_POD_UID, ""),
    )
    agent.listen(options.host, options.port)
    on_termination(agent.quit)
    agent.run()


if __name__ == "__main__":
    main()
