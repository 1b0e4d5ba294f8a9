"""Variables for torchrun, and explanations of its failures."""

from dataclasses import replace
from pathlib import Path

import pytest

from mlbench_worker.agent.torchrun import describe, explain, variables
from tests.support.assignments import ASSIGNMENT

_TRACEBACK = """\
Traceback (most recent call last):
  File "/home/me/code/train.py", line 12, in <module>
    main()
  File "/usr/lib/python3.11/runpy.py", line 3, in main
    raise RuntimeError("diverged")
RuntimeError: diverged
"""
_OTHER = _TRACEBACK.replace("diverged", "Connection closed by peer").replace("line 12", "line 30")
_REPORT = """\
E1122 21:03:11.000000 99 torch/distributed/elastic/multiprocessing/api.py:983] failed (exitcode: 1)
Traceback (most recent call last):
  File "/bin/torchrun", line 10, in <module>
    sys.exit(main())
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-11-22_21:03:12
  rank      : 2 (local_rank: 0)
  exitcode  : 1 (pid: 101)
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-22_21:03:11
  host      : here
  rank      : 3 (local_rank: 1)
  exitcode  : EXITCODE (pid: 102)
  error_file: <N/A>
  traceback : WORDS
============================================================
"""


def report(exitcode: int = 1, words: str = "To enable traceback see: https://pytorch.org") -> str:
    return _REPORT.replace("EXITCODE", str(exitcode)).replace("WORDS", words)


def of_rank(rank: int, text: str) -> str:
    return "".join(f"[rank{rank}]: {line}\n" for line in text.splitlines())


@pytest.mark.parametrize(
    ("error", "stderr", "told"),
    [
        ("", "", ""),
        ("", _TRACEBACK, ""),
        ("ValueError: no (a.py:3)", _TRACEBACK, "ValueError: no (a.py:3)"),
        ("ValueError: no (a.py:3)", report(), "rank 3: ValueError: no (a.py:3)"),
        ("", _TRACEBACK + report(), "rank 3: RuntimeError: diverged (train.py:12)"),
        (
            "",
            of_rank(2, _OTHER) + of_rank(3, _TRACEBACK) + of_rank(2, _OTHER) + report(),
            "rank 3: RuntimeError: diverged (train.py:12)",
        ),
        ("", report(), "rank 3: it exited with code 1"),
        ("", report(-9, "Signal 9 (SIGKILL)"), "rank 3: Signal 9 (SIGKILL)"),
        ("", report()[: report().index("  exitcode  : 1 (pid: 102)")], ""),
    ],
)
def test_the_first_error_is_reported_with_rank_and_line(error: str, stderr: str, told: str) -> None:
    assert explain(error, stderr) == told


def test_an_error_outside_user_code_shows_the_innermost_line() -> None:
    assert describe(_TRACEBACK.replace("/home/me/code", "/lib/python3.11")).endswith("(runpy.py:3)")
    assert describe("Traceback (most recent call last):\n") == ""


def test_options_of_torchrun_override_the_rendezvous(tmp_path: Path) -> None:
    def told(*words: str, workers: int = 2) -> dict[str, str]:
        command = ("torchrun", *words, "train.py")
        return variables(replace(ASSIGNMENT, command=command, world_size=workers), tmp_path)

    own = {"TORCHELASTIC_ERROR_FILE", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"}
    assert told("--standalone").keys() == told(workers=1).keys() == own
    assert told("--max_restarts=1")["PET_RDZV_BACKEND"] == "c10d"
    assert "PET_RDZV_BACKEND" not in told()
