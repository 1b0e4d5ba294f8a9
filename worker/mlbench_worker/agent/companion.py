"""The process beside a rank of a job that others start: it joins a run, and ships its values.

``mlbench/tracking/companion.py`` starts it. The rank never waits for it and does not end with it:
what the master does not take lies in a folder, for ``mlbench ship FOLDER``.
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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlbench.contract import names
from mlbench.contract.assignment import Assignment
from mlbench.contract.join_token import why_refused
from mlbench.contract.limits import MAX_COMMAND_LENGTH
from mlbench.contract.names import ProgressName
from mlbench.local.backoff import Backoff
from mlbench.tracking.job import Job
from mlbench.tracking.job_totals import JobTotals
from mlbench_worker.agent import environment
from mlbench_worker.agent.attempt import Attempt
from mlbench_worker.agent.autopsy.autopsies import Autopsies
from mlbench_worker.agent.files import read_json, remove, write_json
from mlbench_worker.agent.foreign_rank import LOOK_SECONDS, ForeignRank, say, totals_of
from mlbench_worker.agent.gpus import Gpus
from mlbench_worker.agent.link import Joined, Link, RefusedError
from mlbench_worker.agent.network import address_towards
from mlbench_worker.agent.process import GRACE_SECONDS
from mlbench_worker.agent.shipper import Shipper
from mlbench_worker.agent.usage import read_usage

if TYPE_CHECKING:
    from mlbench_worker.agent.facts import Facts

log = logging.getLogger(__name__)

_JOB = "job.json"
# After the end, for so long a rank waits for a master that takes nothing.
_PATIENCE_SECONDS = 10.0
_LONGEST_BACKOFF_SECONDS = 5.0
_LONGEST_REST_SECONDS = 60.0
# At the end of a rank that was short.
_POLL_SECONDS, _DESCRIBE_SECONDS = 0.5, 5.0
_UNKNOWN = "nobody knows how it ended: its recorder and its companion were killed"
_NOBODY = "http://master.invalid"


def main() -> None:
    """Record a rank that standard input describes, or ship what ``ship FOLDER`` names."""
    logging.basicConfig(level=logging.ERROR, format="mlbench: %(message)s")
    url, token = os.environ[names.ENV_URL], os.environ[names.ENV_TOKEN]
    if sys.argv[1:2] == ["ship"]:
        sys.exit(ship(Path(sys.argv[2]), url, token))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # they are the rank's
    wanted = json.loads(sys.stdin.buffer.readline())
    (resume if "folder" in wanted else record)(wanted, url, token)


def record(wanted: Mapping[str, Any], url: str, token: str) -> None:
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
        "command": "hidden"
        if names.ENV_HIDE_COMMAND in os.environ
        else _as_text(wanted["command"]),
        "working_dir": wanted["working_dir"],
        "host": socket.gethostname(),
        "uid": secrets.token_hex(16),
        "began_at": time.time(),
    }
    root = int(wanted["root"])
    attempt = None
    try:
        attempt = Attempt.create(Path(wanted["kept_in"]), assignment)
        write_json(attempt.folder / _JOB, order)
        observation = attempt.listen(os.environ, root=root)
        variables = {
            **environment.beside(attempt, os.environ),
            names.ENV_JOB: job.key,
            names.ENV_LAUNCHER: job.launcher,
            **observation.variables,
        }
    except (OSError, RuntimeError, ValueError) as error:
        print(json.dumps({"error": str(error)}), flush=True)
        if attempt is not None:
            _remove(attempt)
        return
    logs = [str(attempt.file(stream)) for stream in ("stdout", "stderr")]
    print(json.dumps({"variables": variables, "logs": logs}), flush=True)
    # The rank runs meanwhile: what takes longer to import comes after this.
    from mlbench_worker.agent import trainjob  # noqa: PLC0415
    from mlbench_worker.agent.facts import Facts  # noqa: PLC0415

    facts = Facts(dict(os.environ))
    observation.measure(f"{names.ENV_JOB}={job.key}", name_others=True)
    rank = ForeignRank(attempt, root)
    recording = Recording(attempt, order, url, token, facts, rank, wanted["nowhere"])
    rank.listen(recording.describe, recording.wake, recording.hurry)
    trainjob.start(attempt, os.environ)
    recording.run()


def resume(wanted: Mapping[str, Any], url: str, token: str) -> None:
    """Ship on from a ``folder`` whose companion was killed; the rest is as for ``record``."""
    attempt = Attempt.open_running(Path(wanted["folder"]))
    order = read_json(attempt.folder / _JOB)
    rank = ForeignRank(attempt, int(wanted["root"]))
    recording = Recording(attempt, order, url, token, rank=rank, nowhere=wanted["nowhere"])
    rank.listen(lambda: None, recording.wake, recording.hurry)
    recording.run()


def _as_text(command: Sequence[str]) -> str:
    """Return a command as a shell would take it, without the words that are too many."""
    words, left = [], MAX_COMMAND_LENGTH - len("... ")
    for word in command:
        words.append(shlex.quote(word))
        left -= len(words[-1]) + 1
        if left < 0:
            words[-1] = "..."
            break
    return " ".join(words).encode(errors="replace").decode()


def ship(folder: Path, url: str, token: str) -> int:
    """Ship what a rank has left in a folder, and return an exit code."""
    try:
        attempt, order = Attempt.open(folder, _UNKNOWN), read_json(folder / _JOB)
    except (FileNotFoundError, ValueError) as error:
        print(f"mlbench: {folder} holds nothing to ship: {error}", file=sys.stderr)
        return 2
    # A run that has ended without it takes no more: then it is one of its own.
    for uid in (order["uid"], secrets.token_hex(16)):
        recording = Recording(attempt, {**order, "uid": uid}, url, token)
        if recording.run():
            return 0
        if recording.is_unauthorized or not recording.is_refused:
            break
    return 1


def _remove(attempt: Attempt) -> None:
    """Remove the folder of an attempt, and its parent if that is empty."""
    attempt.forget()
    remove(attempt.folder)
    with suppress(OSError):
        attempt.folder.parent.rmdir()


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


class Recording:
    """The way of a rank to the master."""

    def __init__(
        self,
        attempt: Attempt,
        order: Mapping[str, Any],
        url: str,
        token: str,
        facts: "Facts | None" = None,
        rank: ForeignRank | None = None,
        nowhere: str = "",
    ) -> None:
        """``order`` is what it joins with at ``url``; ``facts`` are stated of the machine.

        Of a ``rank`` that still goes on, what it uses is told, and it is asked to end when the
        master says so. ``nowhere`` is why there is no master, so that all is kept.
        """
        self._facts = facts
        self._is_polled = threading.Event()
        self._attempt = attempt
        self._order = order
        self._url = url
        self._rank = rank
        self._autopsies = Autopsies(self._connect, _last_step)
        self._wake = threading.Event()
        self._token = token
        self._link = self._connect()
        self._joined: Joined | None = None
        self._shipper: Shipper | None = None
        self._problem = nowhere or "it does not answer"
        self.is_refused = bool(nowhere)
        self.is_unauthorized = False
        self._has_told_end = False
        self._has_warned = False
        self._taken: object = None
        self._taken_at = 0.0
        self._describer = threading.Thread(target=self._state, name="describer", daemon=True)
        if facts is not None:
            self._describer.start()

    def _connect(self) -> Link:
        return Link(self._url or _NOBODY, self._token)

    def wake(self) -> None:
        """Have the master told of the rank's end at once."""
        self._wake.set()

    def hurry(self) -> None:
        """Ship at once, because a notebook's kernel may end here, and its machine with it."""
        self._attempt.hurry.set()

    def describe(self) -> None:
        """Have the machine described before all is counted, in a few seconds."""
        self._is_polled.wait(_POLL_SECONDS)
        self._is_polled.set()
        self._describer.join(_DESCRIBE_SECONDS)

    def run(self) -> bool:
        """Go on until all is shipped, or after the rank's end nothing moves; tell which."""
        if self._url:
            # A master that never ends its answer keeps that thread, and nothing else.
            threading.Thread(target=self._talk, name="talk", daemon=True).start()
            if not self._attempt.ended.wait(_PATIENCE_SECONDS):
                self._warn()
        else:
            self._is_polled.set()
            self._warn()
        self._attempt.ended.wait()
        while not (self._is_done() or self._is_stuck()):
            time.sleep(LOOK_SECONDS)
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
                self.is_unauthorized = error.status == HTTPStatus.UNAUTHORIZED
                problem = str(error)
                if self.is_unauthorized:
                    why = why_refused(self._token, time.time())
                    problem = f"{why}. `mlbench token join` prints a new one"
                if problem != self._problem:
                    say(f"not recorded at {self._url}: {problem}")
                self._problem, self.is_refused = problem, True
                if self._joined is not None:
                    return
                # The run of a job before may go on for a while.
                patience = _LONGEST_BACKOFF_SECONDS
            except Exception as error:
                # Whoever listens there may answer anything.
                self._problem, patience = str(error) or type(error).__name__, backoff.seconds()
                self._warn()
            self._wake.wait(patience)

    def _warn(self) -> None:
        """Say once, while the rank runs, that no master has accepted it."""
        if self._rank is None or self._joined or self._has_warned or self._attempt.ended.is_set():
            return
        self._has_warned = True
        who = f"{self._url} has not accepted it yet" if self._url else "no master is named"
        rank, folder = self._order["rank"], self._attempt.folder
        say(f"rank {rank} is recorded in {folder}: {who} ({self._problem})")

    def _turn(self) -> float:
        """Join, or report and do what the master asks; return the seconds until the next time."""
        joined = self._joined or self._join()
        has_ended = self._attempt.ended.is_set()
        about = {"ip": address_towards(), "pod_uid": self._order["uid"], **self._attempt.report()}
        if self._rank and not has_ended:
            used = read_usage(self._rank.root, self._gpus)
            about["resources"] = {**used, **_progress(self._attempt)}
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
        attempt, run_id = self._attempt, joined.run_id
        attempt.assignment = replace(attempt.assignment, run_id=run_id, attempt=joined.attempt)
        self._shipper = Shipper(attempt, self._connect())
        self._shipper.start()
        self._joined = joined
        with suppress(OSError):
            write_json(attempt.folder / names.RUN_FILE, run_id)
        if attempt.assignment.rank == 0:
            say(f"recorded as run {run_id}: {self._url}/runs/{run_id}")
        return joined

    def _state(self) -> None:
        assert self._facts is not None
        self._is_polled.wait()  # which tells by how much the clocks differ
        try:
            facts = self._facts.state(self._attempt.assignment, self._link.clock.offset)
            self._attempt.state(facts)
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

    def _is_stuck(self) -> bool:
        """Tell whether the master refuses the rest, or has taken nothing for a while."""
        if self._shipper is not None and self._shipper.refusal:
            self._problem, self.is_refused = self._shipper.refusal, True
        if self.is_refused:
            return True
        taken = (self._shipper.held if self._shipper else None, self._has_told_end)
        if taken != self._taken:
            self._taken, self._taken_at = taken, time.monotonic()
        return time.monotonic() - self._taken_at > _PATIENCE_SECONDS

    def _finish(self) -> bool:
        folder = self._attempt.folder
        if self._is_done():
            _remove(self._attempt)
            return True
        if self._shipper is not None:
            self._shipper.quit()
        self._attempt.remember_exit()
        with suppress(OSError):  # unless the rank has left files
            self._attempt.output.rmdir()
            self._attempt.output.parent.rmdir()
        where = f"not at {self._url}" if self._url else "at no master"
        say(
            f"{self._left():,} bytes of what rank {self._order['rank']} recorded are {where} "
            f"({self._problem}): they lie in {folder}, and `mlbench ship {folder}` sends them"
        )
        return False


if __name__ == "__main__":
    main()
