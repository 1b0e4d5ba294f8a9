"""A stand-in for the agent: runs one training process, and prints how it ended.

In a process of its own, as the agent is: ending a training process ends all children.
usage: run_process.py FOLDER [stop] [forked] [CORE…] [in=FOLDER] -- COMMAND…
A process has a second to end when it is asked to.
"""

import json
import os
import sys
import threading
from dataclasses import asdict
from pathlib import Path

import mlbench_worker.agent.training_process
from mlbench.contract.names import ENV_METRICS_FILE
from mlbench_worker.agent.fork_servers import ForkServer
from mlbench_worker.agent.training_process import Exit, TrainingProcess, adopt_orphans


def main() -> None:
    """Run until the process has ended; with "stop", ask it to end once it has written a line."""
    split = sys.argv.index("--")
    folder, *flags = sys.argv[1:split]
    ended = threading.Event()
    exits: list[Exit] = []

    def note(outcome: Exit) -> None:
        exits.append(outcome)
        ended.set()

    mlbench_worker.agent.training_process.GRACE_SECONDS = 1.0
    adopt_orphans()
    stdout = Path(folder) / "stdout"
    working_dirs = [flag.removeprefix("in=") for flag in flags if flag.startswith("in=")]
    server = ForkServer(os.environ) if "forked" in flags else None
    assert server is None or server.is_ready(30.0)
    process = TrainingProcess(
        sys.argv[split + 1 :],
        environ={**os.environ, ENV_METRICS_FILE: f"{folder}/metrics"},
        working_dir=working_dirs[0] if working_dirs else None,
        stdout=stdout,
        stderr=Path(folder) / "stderr",
        cpus=[int(flag) for flag in flags if flag.isdecimal()],
        on_exit=note,
        forkserver=server,
    )
    stopping = "stop" not in flags
    while not ended.wait(0.02):
        if not stopping and stdout.stat().st_size:
            stopping = True
            process.stop()
        process.enforce_stop()
    print(json.dumps(asdict(exits[0])))


if __name__ == "__main__":
    main()
