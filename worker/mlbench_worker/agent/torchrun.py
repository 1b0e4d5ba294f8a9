"""torchrun: the variables that make the workers one job, and the reason of a failure.

torchrun reads an option from its command line, or else from a variable PET_OPTION.
"""

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from mlbench.contract.assignment import Assignment
from mlbench_worker.agent.rank_network import address_towards
from mlbench_worker.agent.stream_files import read_json, read_regular

# torchrun ends with this report, as the message of an exception.
_REPORT = "Root Cause (first observed failure):\n"
_REPORTED = re.compile(r"^  (rank|exitcode|traceback) *: (\S.*)$", re.MULTILINE)
_TRACEBACK = "Traceback (most recent call last):\n"
_CONTENT = re.compile(r"(?P<frames>(?:[ \t].*\n)+)(?P<error>\S.*)")
_FRAME = re.compile(r'^  File "(?P<path>[^"\n]+)", line (?P<line>\d+)', re.MULTILINE)
# Parts of the paths of libraries, whose frames do not show the user's mistake.
_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3", "<frozen ")


def variables(assignment: Assignment, error_file: Path) -> dict[str, str]:
    """Return the variables that make torchrun on all workers one job; its options override them.

    With ``--standalone``, each worker is a separate job.
    """
    a = assignment
    environment = {
        "TORCHELASTIC_ERROR_FILE": str(error_file),
        # With one store for all restarts, restarted processes would find addresses of old ones.
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }
    if a.world_size == 1 or not a.master_addr or "--standalone" in a.command:
        return environment
    if any(word.replace("_", "-").startswith("--max-restarts") for word in a.command):
        # The default, static, assigns ranks in the order of workers, but cannot restart.
        environment["PET_RDZV_BACKEND"] = "c10d"
    return environment | {
        "PET_NNODES": str(a.world_size),
        "PET_NODE_RANK": str(a.rank),
        "PET_MASTER_ADDR": a.master_addr,
        "PET_MASTER_PORT": str(a.master_port),
        "PET_RDZV_ENDPOINT": f"{a.master_addr}:{a.master_port}",
        "PET_RDZV_ID": f"{a.run_id}.{a.attempt}",
        "PET_LOCAL_ADDR": a.attachment.address
        if a.attachment
        else address_towards(a.master_addr, otherwise=a.master_addr),
    }


def failure(error_file: Path, stderr: Path) -> str:
    """Return ``rank 1: RuntimeError: diverged (train.py:12)``; "" if PyTorch reports no error.

    Args:
        error_file: file of torchrun, or of a process whose main function is a ``record``.
        stderr: the standard error of the worker's processes.
    """
    error = ""
    with suppress(OSError, ValueError, LookupError, TypeError):
        message: Any = read_json(error_file)["message"]
        if isinstance(message, str):
            error = message
        else:
            error = describe(str(message["extraInfo"]["py_callstack"])) or str(message["message"])
    end = read_regular(stderr, 256 << 10, from_end=True) or b""
    return explain(error, end.decode(errors="replace"))


def explain(error: str, stderr: str) -> str:
    """Return the failure from the written error ("" if none was written) and the end of stderr."""
    before, separator, report = stderr.rpartition(_REPORT)
    reported = dict(_REPORTED.findall(report[:4096]))
    if not separator or not reported.keys() >= {"rank", "exitcode"}:
        return error
    rank, _, _ = reported["rank"].partition(" ")
    error = error or last_error(before.rpartition(_TRACEBACK)[0], rank)
    if not error and "see: https://" not in (words := reported.get("traceback", "see: https://")):
        error = words
    code, _, _ = reported["exitcode"].partition(" ")
    return f"rank {rank}: {error or f'it exited with code {code}'}"


def last_error(text: str, rank: str) -> str:
    """Return the last error of a rank in a text; of any rank if lines are not labelled."""
    return describe(lines_of(text, rank)) or describe(text)


def lines_of(text: str, rank: str) -> str:
    """Return the lines of a rank in a text, or all lines if they are not labelled.

    PyTorch labels the lines of a process that has joined its group: ``[rank1]: ``.
    """
    start = f"[rank{rank}]: "
    own = [line.removeprefix(start) for line in text.splitlines() if line.startswith(start)]
    return "\n".join(own) or text


def last_traceback(text: str) -> re.Match[str] | None:
    """Match the ``frames`` and the ``error`` of the last traceback in a text."""
    return _CONTENT.match(text.rpartition(_TRACEBACK)[2])


def describe(text: str) -> str:
    """Return the error of the last traceback in a text, with the line of the user's code."""
    traceback = last_traceback(text)
    if traceback is None:
        return ""
    frames = _FRAME.findall(traceback["frames"])
    own = [frame for frame in frames if not any(part in frame[0] for part in _LIBRARIES)]
    place = [f" ({Path(path).name}:{line})" for path, line in (own or frames)[-1:]]
    return "".join([traceback["error"], *place])
