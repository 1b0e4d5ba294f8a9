"""Commands under ``mlbench record``, started as by a shell, Slurm or Kubernetes."""

import os
import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from mlbench import ApiClient
from mlbench.contract import names
from mlbench.contract.join_token import make, new_holder
from mlbench.contract.records import Run
from mlbench.local.home import Home
from tests.conftest import wait_for
from tests.support.stacks import assert_counted, reload, run_to_end

RECORD = [str(Path(sys.executable).with_name("mlbench")), "record"]

STEPS = """\
i=0
while [ $i -lt $0 ]; do
  loss="{\\"train_loss\\": $i}"
  echo "{\\"time\\": $(date +%s.%N), \\"metrics\\": $loss}" >> $MLBENCH_METRICS_FILE
  i=$((i + 1)); sleep $1
done
"""
"""A training script: ``sh -c STEPS 50 0.1`` records 50 losses, 0.1 s apart."""


def environ(home: Path, url: str, token: str) -> dict[str, str]:
    """Return the environment of a recorded command; ``home`` is the user's folder."""
    ours = {names.ENV_HOME: str(home), names.ENV_URL: url, names.ENV_TOKEN: token}
    return {**os.environ, **ours}


def at_stack(stack: Home, home: Path, holder: str = "") -> dict[str, str]:
    """Return the environment for a stack's user, with a join token (default: for a new holder)."""
    connection = stack.read_connection()
    token = make(connection.token, int(time.time()) + 3600, holder or new_holder())
    return environ(home, connection.url, token)


def run_of(client: ApiClient, words: str | bytes) -> Run:
    """Return the run that ``mlbench record`` announced in its output."""
    text = words if isinstance(words, str) else words.decode(errors="replace")
    [number] = re.findall(r"mlbench: recorded as run (\d+): ", text)
    return client.get_run(int(number)).result().value


def sealed(client: ApiClient, run: Run) -> Run:
    """Wait until a run has ended and is archived. All of its samples must have arrived."""
    ended = run_to_end(client, run)
    assert_counted(ended)
    wait_for(lambda: reload(client, run).archive is not None, what="it is sealed")
    return ended


def left_in(environ: Mapping[str, str]) -> list[Path]:
    return sorted(Path(environ[names.ENV_HOME], "recorded").glob("run-*"))
