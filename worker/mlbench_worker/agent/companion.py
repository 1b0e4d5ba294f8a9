"""The process beside a rank of a job that others start: it joins a run, and ships its values.

``mlbench/companion.py`` starts it. The rank never waits for it and does not end with it: what the
master does not take lies in a folder, for ``mlbench ship FOLDER``.
"""

import json
import logging
import os
import secrets
import shlex
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlbench import names
from mlbench.assignment import Assignment
from mlbench.backoff import Backoff
from mlbench.job import Job
from mlbench.job_totals import JobTotals, read_totals
from mlbench.names import ProgressName
from mlbench_worker.agent import environment
from mlbench_worker.agent.attempt import Attempt
from mlbench_worker.agent.autopsy.autopsies import Autopsies
from mlbench_worker.agent.files import read_json, remove, write_json
from mlbench_worker.agent.gpus import Gpus
from mlbench_worker.agent.link import Joined, Link, RefusedError
from mlbench_worker.agent.network import address_towards
from mlbench_worker.agent.observation import ForeignJob
from mlbench_worker.agent.process import GRACE_SECONDS, Exit
from mlbench_worker.agent.shipper import Shipper
from mlbench_worker.agent.sources.processes import descendants
from mlbench_worker.agent.usage import read_usage

if TYPE_CHECKING:
    from mlbench_worker.agent.facts import Facts

log = logging.getLogger(__name__)

_JOB = "job.json"
# After the end, for so long a rank waits for a master that takes nothing.
_PATIENCE_SECONDS = 10.0
_LONGEST_BACKOFF_SECONDS = 5.0
_LONGEST_COMMAND = 4090  # the master takes six more
_LOOK_SECONDS = 0.02
_LONGEST_REST_SECONDS = 60.0
# At the end of a rank that was short.
_POLL_SECONDS, _DESCRIBE_SECONDS = 0.5, 5.0
_NOBODY = "http://master.invalid"
# A command whose recorder was killed is ended, as what watches its job takes it for ended.
_KILLED = "its recorder was killed, and so the command was ended"
_UNKNOWN = "its Python ended without a word: it was killed, or left by os._exit"


def main() -> None:
    """Record a rank that standard input describes, or ship what ``ship FOLDER`` names."""
    logging.basicConfig(level=logging.ERROR, format="mlbench: %(message)s")
    master = Master(os.environ[names.ENV_URL], os.environ[names.ENV_TOKEN])
    if sys.argv[1:2] == ["ship"]:
        sys.exit(ship(Path(sys.argv[2]), master))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # they are the rank's
    record(json.loads(sys.stdin.buffer.readline()), master)


@dataclass(frozen=True)
class Master:
    """Where to join, and the token for it."""

    url: str
    token: str


def record(wanted: Mapping[str, Any], master: Master) -> None:
    """Record a rank until it has ended, and all is shipped or nothing moves any more.

    ``wanted`` has a ``job`` with ``name``, ``command`` and ``working_dir``; the ``root`` that its
    processes descend from; ``kept_in``, the folder for what is not shipped yet;
    ``nowhere``, why there is no master to ship it to, or "".
    """
    job = Job(**wanted["job"])
    assignment = Assignment(
        run_id=0,
        attempt=job.attempt,
        rank=job.rank,
        world_size=job.num_workers,
        master_addr="",
        master_port=0,
        command=tuple(wanted["command"]),
        cpus=(),
        keeps_checkpoints=False,
        working_dir=wanted["working_dir"],
    )
    order = {
        **wanted["job"],
        "name": wanted["name"],
        "command": _as_text(wanted["command"]),
        "working_dir": wanted["working_dir"],
        "host": socket.gethostname(),
        "uid": secrets.token_hex(16),
        "began_at": time.time(),
    }
    foreign = ForeignJob(f"{names.ENV_JOB}={job.key}", int(wanted["root"]))
    try:
        attempt = Attempt.create(Path(wanted["kept_in"]), assignment)
        write_json(attempt.folder / _JOB, order)
        variables = {
            **environment.beside(attempt, os.environ),
            names.ENV_JOB: job.key,
            names.ENV_LAUNCHER: job.launcher,
            **attempt.listen(os.environ, job=foreign),
        }
    except (OSError, RuntimeError, ValueError) as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return
    logs = [str(attempt.file(stream)) for stream in ("stdout", "stderr")]
    print(json.dumps({"variables": variables, "logs": logs}), flush=True)
    # The rank runs meanwhile: what takes longer to import comes after this.
    from mlbench_worker.agent import trainjob  # noqa: PLC0415
    from mlbench_worker.agent.facts import Facts  # noqa: PLC0415

    facts = Facts(dict(os.environ))
    attempt.measure()
    rank = _Rank(attempt, foreign.root)
    recording = Recording(attempt, order, master, facts, rank, wanted["nowhere"])
    rank.listen(recording.describe, recording.wake)
    trainjob.start(attempt, os.environ)
    recording.run()


def _as_text(command: Sequence[str]) -> str:
    """Return a command as a shell would take it, without the words that are too many."""
    words, left = [], _LONGEST_COMMAND
    for word in command:
        words.append(shlex.quote(word))
        left -= len(words[-1]) + 1
        if left < 0:
            words[-1] = "..."
            break
    return " ".join(words).encode(errors="replace").decode()


def ship(folder: Path, master: Master) -> int:
    """Ship what a rank has left in a folder, and return an exit code."""
    try:
        attempt, order = Attempt.open(folder), read_json(folder / _JOB)
    except (FileNotFoundError, ValueError) as error:
        print(f"mlbench: {folder} holds nothing to ship: {error}", file=sys.stderr)
        return 2
    # A run that has ended without it takes no more: then it is one of its own.
    for uid in (order["uid"], secrets.token_hex(16)):
        recording = Recording(attempt, {**order, "uid": uid}, master)
        if recording.run():
            return 0
        if not recording.is_refused:
            break
    return 1


def totals_of(attempt: Attempt) -> list[JobTotals]:
    """Return the totals of a rank's processes, the one of the lowest rank first."""
    pattern = names.totals_file(attempt.file("metrics").name, "*")
    paths = attempt.folder.glob(pattern)
    return [read_totals(path) for path in sorted(paths, key=lambda one: (len(one.name), one))]


def _last_step(attempt: Attempt) -> JobTotals:
    return next(iter(totals_of(attempt)), JobTotals())


def _progress(attempt: Attempt) -> Mapping[ProgressName, float]:
    """Return what an agent's scrape would tell of a rank's first process, if that tells its steps.

    All processes of a rank wait for each other.
    """
    totals = _last_step(attempt)
    if not totals.progress_at:
        return {}
    return {
        "mlbench_worker_progress_timestamp_seconds": totals.progress_at,
        "mlbench_worker_step_seconds_count": totals.steps,
        "mlbench_worker_step_seconds_sum": totals.step_seconds,
        "mlbench_worker_steps_total": totals.steps,
    }


class _Rank:
    """The rank's side: its standard input tells how the rank ends."""

    def __init__(self, attempt: Attempt, root: int) -> None:
        self._attempt = attempt
        self.root = root
        """The process that the rank's processes descend from."""
        self._command: int | None = None
        self._is_asked_to_stop = False

    @property
    def pid(self) -> int:
        """The first process of the rank's own."""
        return self._command or self.root

    def listen(self, before_end: Callable[[], None], on_end: Callable[[], None]) -> None:
        """Note the rank's end, in a thread."""

        def run() -> None:
            ended, failure, missing = self._wait()
            before_end()
            if lost := sum(totals.lost for totals in totals_of(self._attempt)):
                words = f"{lost:,} values could not be written: no room was left for them"
                _say(f"{words}, of rank {self._attempt.assignment.rank}")
                missing = "; ".join(filter(None, [words, missing]))
            self._attempt.conclude(ended, failure=failure, missing=missing)
            on_end()

        threading.Thread(target=run, name="rank", daemon=True).start()

    def stop(self) -> None:
        """Ask the rank to end, once: it may take its time."""
        if self._is_asked_to_stop:
            return
        self._is_asked_to_stop = True
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)

    def _wait(self) -> tuple[Exit, str, str]:
        """Return how the rank ended, once it has, a failure besides, and what is missing."""
        for line in sys.stdin.buffer:
            said = json.loads(line)
            if "exits" in said:  # and then a byte is the code
                byte = sys.stdin.buffer.read(1)
                if byte:
                    return Exit(byte[0], time.time()), "", ""
            elif "exit" in said:
                code = max(-255, min(255, said["exit"]))
                return Exit(code, said["at"]), said["failure"], said["missing"]
            else:
                self._command = said["pid"]
        if self._command is None:
            return Exit(-signal.SIGKILL, time.time()), _UNKNOWN, ""
        self._end()
        return Exit(-signal.SIGKILL, time.time()), _KILLED, ""

    def _end(self) -> None:
        assert self._command is not None
        left = [self._command, *descendants(self._command)]
        for number in (signal.SIGTERM, signal.SIGKILL):
            deadline = time.monotonic() + GRACE_SECONDS
            for pid in left:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
            while any(map(_lives, left)) and time.monotonic() < deadline:
                time.sleep(_LOOK_SECONDS)


def _lives(pid: int) -> bool:
    try:
        # A zombie, whose parent has not waited for it, has ended.
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state not in b"ZX"


class Recording:
    """The way of a rank to the master."""

    def __init__(
        self,
        attempt: Attempt,
        order: Mapping[str, Any],
        master: Master,
        facts: "Facts | None" = None,
        rank: _Rank | None = None,
        nowhere: str = "",
    ) -> None:
        """``order`` is what it joins with; ``facts`` are stated of the machine.

        Of a ``rank`` that still goes on, what it uses is told, and it is asked to end when the
        master says so. ``nowhere`` is why there is no master, so that all is kept.
        """
        self._facts = facts
        self._is_polled = threading.Event()
        self._attempt = attempt
        self._order = order
        self._master = master
        self._rank = rank
        self._autopsies = Autopsies(self._connect, _last_step)
        self._wake = threading.Event()
        self._token = master.token
        self._link = self._connect()
        self._joined: Joined | None = None
        self._shipper: Shipper | None = None
        self._problem = nowhere or "it does not answer"
        self.is_refused = bool(nowhere)
        self._has_told_end = False
        self._describer = threading.Thread(target=self._state, name="describer", daemon=True)
        if facts is not None:
            self._describer.start()

    def _connect(self) -> Link:
        return Link(self._master.url or _NOBODY, self._token)

    def wake(self) -> None:
        """Have the master told of the rank's end at once."""
        self._wake.set()

    def describe(self) -> None:
        """Have the machine described before all is counted, in a few seconds."""
        self._is_polled.wait(_POLL_SECONDS)
        self._is_polled.set()
        self._describer.join(_DESCRIBE_SECONDS)

    def run(self) -> bool:
        """Go on until all is shipped, or after the rank's end nothing moves; tell which."""
        if self._master.url:
            # A master that never ends its answer keeps that thread, and nothing else.
            threading.Thread(target=self._talk, name="talk", daemon=True).start()
        else:
            self._is_polled.set()
        self._attempt.ended.wait()
        progress = _Progress()
        while not (self._is_done() or self._is_stuck(progress)):
            time.sleep(_LOOK_SECONDS)
        return self._finish()

    @cached_property
    def _gpus(self) -> Gpus:
        """The machine's: connecting may take seconds, so only when they are first asked."""
        return Gpus()

    def _talk(self) -> None:
        backoff = Backoff(longest=_LONGEST_BACKOFF_SECONDS)
        while True:
            self._wake.clear()
            try:
                patience = min(self._turn(), _LONGEST_REST_SECONDS)
                backoff.reset()
                self.is_refused = False
                self._is_polled.set()
            except RefusedError as error:
                if str(error) != self._problem:
                    _say(f"not recorded: {error}")
                self._problem, self.is_refused = str(error), True
                if self._joined is not None:
                    return
                # The run of a job before may go on for a while.
                patience = _LONGEST_BACKOFF_SECONDS
            except Exception as error:
                # Whoever listens there may answer anything.
                self._problem, patience = str(error), backoff.seconds()
            self._wake.wait(patience)

    def _turn(self) -> float:
        """Join, or report and do what the master asks; return the seconds until the next time."""
        joined = self._joined or self._join()
        has_ended = self._attempt.ended.is_set()
        about = {"ip": address_towards(), "pod_uid": self._order["uid"], **self._attempt.report()}
        if self._rank and not has_ended:
            about["resources"] = {
                **read_usage(self._rank.root, self._gpus),
                **_progress(self._attempt),
            }
        reply = self._link.poll(joined.pod, about)
        self._has_told_end = has_ended
        pid = self._rank.pid if self._rank else None
        self._autopsies.follow(reply, joined.pod, self._attempt, pid)
        if reply.do == "stop" and self._rank and not has_ended:
            self._rank.stop()
            return GRACE_SECONDS
        return reply.next_poll_seconds

    def _join(self) -> Joined:
        order = dict(self._order)
        order["began_ago"] = max(0.0, time.time() - order.pop("began_at"))
        joined = self._link.join(order)
        self._link.close()
        self._token = joined.token
        self._link = self._connect()
        attempt = self._attempt
        attempt.assignment = replace(
            attempt.assignment, run_id=joined.run_id, attempt=joined.attempt
        )
        self._shipper = Shipper(attempt, self._connect())
        self._shipper.start()
        self._joined = joined
        if attempt.assignment.rank == 0:
            _say(f"recorded as run {joined.run_id}: {self._master.url}/runs/{joined.run_id}")
        return joined

    def _state(self) -> None:
        assert self._facts is not None
        self._is_polled.wait()  # which tells by how much the clocks differ
        try:
            self._attempt.state(
                self._facts.state(self._attempt.assignment, self._link.clock.offset)
            )
        except Exception:
            # A machine that cannot be described can still train.
            log.exception("cannot state the machine")

    def _is_done(self) -> bool:
        shipper = self._shipper
        if not (self._has_told_end and shipper and shipper.has_shipped_all):
            return False
        return self._left() <= 0  # whatever it says, it may hold less

    def _left(self) -> int:
        return sum(self._attempt.sizes().values()) - (self._shipper.held if self._shipper else 0)

    def _is_stuck(self, progress: "_Progress") -> bool:
        if self._shipper is not None and self._shipper.refusal:
            self._problem, self.is_refused = self._shipper.refusal, True
        if self.is_refused:
            return True
        held = self._shipper.held if self._shipper else None
        return progress.look((held, self._has_told_end)) > _PATIENCE_SECONDS

    def _finish(self) -> bool:
        folder = self._attempt.folder
        if self._is_done():
            self._attempt.forget()
            remove(folder)
            return True
        if self._shipper is not None:
            self._shipper.quit()
        self._attempt.remember_exit()
        where = f"not at {self._master.url}" if self._master.url else "at no master"
        _say(
            f"{self._left():,} bytes of what rank {self._order['rank']} recorded are {where} "
            f"({self._problem}): they lie in {folder}, and `mlbench ship {folder}` sends them"
        )
        return False


class _Progress:
    """Measures for how long something has been the same."""

    def __init__(self) -> None:
        self._last: object = None
        self._since = 0.0

    def look(self, now: object) -> float:
        if now != self._last:
            self._last, self._since = now, time.monotonic()
        return time.monotonic() - self._since


def _say(words: str) -> None:
    """Tell the reader of the job's output, if there still is one."""
    with suppress(OSError):
        sys.stderr.write(f"mlbench: {words}\n")  # at once, as other ranks may write there too
        sys.stderr.flush()


if __name__ == "__main__":
    main()
