"""Stops of a rank and suspensions of its machine are detected with their times."""

import os
import signal
import subprocess
import time

import pytest

from mlbench_worker.agent.halts import Halts
from tests.conftest import wait_for


def test_a_process_stopped_by_a_signal_is_detected() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        halts = Halts()
        halts.look([process.pid])
        os.kill(process.pid, signal.SIGSTOP)
        began = time.time()

        def noticed() -> bool:
            halts.look([process.pid])
            return bool(halts.spans())

        wait_for(noticed)
        [(first, _)] = halts.spans()
        assert first == pytest.approx(began, abs=0.5)
        time.sleep(0.2)
        os.kill(process.pid, signal.SIGCONT)
        ended = time.time()
        time.sleep(0.05)
        halts.look([process.pid])
        process.kill()
    halts.look([process.pid])
    [(_, last)] = halts.spans()
    assert last == pytest.approx(ended, abs=0.5)


def test_a_suspended_machine_is_detected() -> None:
    now, slept = 100.0, 5.0
    halts = Halts(lambda: now, lambda: slept)
    now, slept = 101.0, 5.0001
    halts.look([])
    assert halts.spans() == ()
    now, slept = 161.0, 64.0
    halts.look([])
    [(began, ended)] = halts.spans()
    assert (began, ended) == pytest.approx((102.0, 161.0), abs=0.01)
