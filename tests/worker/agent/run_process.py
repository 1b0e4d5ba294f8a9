"""A stand-in for the agent: runs a training process, and prints how it ended.

usage: run_process.py FOLDER [stop] [CORE…] [in=FOLDER] -- COMMAND…

This is a separate process because the end of a training process ends all children of the agent.
Without arguments, it reads an environment and such arguments as JSON, one line per process, and
forks each process. A process has a second to end after SIGTERM.
"""

import json
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import mlbench_worker.agent.training_process
from mlbench.contract.names import ENV_METRICS_FILE
from mlbench_worker.agent.fork_servers import ForkServer
from mlbench_worker.agent.training_process import Exit, TrainingProcess, adopt_orphans


def run(
    environ: Mapping[str, str], arguments: Sequence[str], server: ForkServer | None = None
) -> None:
    """Run a process to its end. With "stop", stop it after its first line of output."""
    split = arguments.index("--")
    folder, *flags = arguments[:split]
    ended = threading.Event()
    exits: list[Exit] = []

    def note(outcome: Exit) -> None:
        exits.append(outcome)
        ended.set()

    stdout = Path(folder) / "stdout"
    working_dirs = [flag.removeprefix("in=") for flag in flags if flag.startswith("in=")]
    process = TrainingProcess(
        arguments[split + 1 :],
        environ={**environ, ENV_METRICS_FILE: f"{folder}/metrics"},
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
    print(json.dumps(asdict(exits[0])), flush=True)


def main() -> None:
    """Run one process, or fork many."""
    mlbench_worker.agent.training_process.GRACE_SECONDS = 1.0
    adopt_orphans()
    if arguments := sys.argv[1:]:
        run(os.environ, arguments)
        return
    server = ForkServer(os.environ)
    assert server.is_ready(60.0)
    for line in sys.stdin:
        environ, arguments = json.loads(line)
        run(environ, arguments, server)


if __name__ == "__main__":
    main()
