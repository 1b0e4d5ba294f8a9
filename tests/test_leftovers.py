"""No process outlives a test session, however the session ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.conftest import wait_for

_SESSION = """
import subprocess, sys, time
from tests.support.leftovers import watch_this_session
end = watch_this_session()
left = subprocess.Popen(["sleep", "300"], start_new_session=True)
print(left.pid, flush=True)
time.sleep(300)
"""


def test_processes_of_a_killed_session_are_ended() -> None:
    environ = {name: value for name, value in os.environ.items() if name != "MLBENCH_TEST_SESSION"}
    session = subprocess.Popen(
        [sys.executable, "-c", _SESSION],
        cwd=Path(__file__).parents[1],
        env=environ,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert session.stdout is not None
    with session.stdout:
        process = Path("/proc") / session.stdout.readline().strip()
        assert process.exists()
        session.send_signal(signal.SIGKILL)
        session.wait()
    wait_for(lambda: not process.exists(), 30.0, "the end of the orphaned process")
