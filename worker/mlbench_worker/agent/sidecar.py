"""The recorder process of an external rank: it joins a run, and ships the rank's values.

``mlbench/tracking/recorder_sidecar.py`` starts the process. The rank never waits for it, and does
not end with it. Values that the master does not accept stay in a folder, for ``mlbench ship``.
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
from mlbench.contract.humanize import visible
from mlbench.contract.join_token import why_refused
from mlbench.contract.limits import MAX_COMMAND_LENGTH
from mlbench.contract.people import own_user
from mlbench.local.backoff import Backoff
from mlbench.tracking.job import Job
from mlbench_worker.agent import environment
from mlbench_worker.agent.attempt import Attempt
from mlbench_worker.agent.external_process import ExternalProcess
from mlbench_worker.agent.external_usage import read_usage
from mlbench_worker.agent.gpus import Gpus
from mlbench_worker.agent.master_client import MasterClient, RequestRefusedError
from mlbench_worker.agent.rank_recorder import RankRecorder
from mlbench_worker.agent.stream_files import read_json, remove, write_json
from mlbench_worker.agent.training_process import GRACE_SECONDS, Exit

if TYPE_CHECKING:
    from mlbench_worker.agent.reported_attributes import ReportedAttributes

log = logging.getLogger(__name__)

_JOB = "job.json"
_PATIENCE_SECONDS = 10.0
"""Time after the rank's end to wait for a master that accepts nothing."""
_MAX_BACKOFF_SECONDS = 5.0


def main() -> None:
    """Record the rank described on standard input, or with ``ship FOLDER`` ship its values."""
    logging.basicConfig(level=logging.ERROR, format="mlbench: %(message)s")
    url, token = os.environ[names.ENV_URL], os.environ[names.ENV_TOKEN]
    if sys.argv[1:2] == ["ship"]:
        sys.exit(ship(Path(sys.argv[2]), url, token))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # these signals are meant for the rank
    request = json.loads(sys.stdin.buffer.readline())
    (resume if "folder" in request else record)(request, url, token)


def record(request: Mapping[str, Any], url: str, token: str) -> None:
    """Record a rank until it has ended, and everything is shipped or the master accepts nothing.

    ``request`` contains a ``job`` with its ``name``, ``command`` and ``working_dir``; ``root``, the
    process whose descendants are the rank; ``kept_in``, the folder for values that are not shipped
    yet; and ``nowhere``, the reason for which there is no master, or "".
    """
    job = Job(**request["job"])
    assignment = Assignment(
        run_id=0,
        attempt=job.attempt,
        rank=job.rank,
        world_size=job.num_workers,
        command=tuple(request["command"]),
        working_dir=request["working_dir"],
    )
    is_hidden = names.ENV_HIDE_COMMAND in os.environ
    order = {
        **request["job"],
        "name": request["name"],
        "command": "hidden" if is_hidden else _as_text(request["command"]),
        "working_dir": request["working_dir"],
        "host": socket.gethostname(),
        "uid": secrets.token_hex(16),
        "user": own_user(),
        "began_at": time.time(),
    }
    root = int(request["root"])
    attempt = None
    try:
        attempt = Attempt.create(Path(request["kept_in"]), assignment)
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
    # The rank starts now. A slow import comes after this, so that the rank does not wait for it.
    from mlbench_worker.agent.reported_attributes import ReportedAttributes  # noqa: PLC0415

    facts = ReportedAttributes(dict(os.environ))
    observation.measure(f"{names.ENV_JOB}={job.key}", name_others=True)
    Sidecar(attempt, order, url, token, root, facts, request["nowhere"]).run()


def resume(request: Mapping[str, Any], url: str, token: str) -> None:
    """Resume shipping from the ``folder`` of a killed recorder; ``record`` describes the rest."""
    attempt = Attempt.open_running(Path(request["folder"]))
    order, root = read_json(attempt.folder / _JOB), int(request["root"])
    Sidecar(attempt, order, url, token, root, nowhere=request["nowhere"]).run()


def _as_text(command: Sequence[str]) -> str:
    """Return a command as a shell accepts it, cut before the master's limit of characters."""
    words, space = [], MAX_COMMAND_LENGTH - len("... ")
    for word in command:
        words.append(shlex.quote(word))
        space -= len(words[-1]) + 1
        if space < 0:
            words[-1] = "..."
            break
    return " ".join(words).encode(errors="replace").decode()


def ship(folder: Path, url: str, token: str) -> int:
    """Ship the values that a rank has left in a folder, and return an exit code."""
    unknown = "nobody knows how it ended: its recorder and its sidecar were killed"
    try:
        attempt, order = Attempt.open(folder, unknown), read_json(folder / _JOB)
    except (FileNotFoundError, ValueError) as error:
        print(f"mlbench: {folder} holds nothing to ship: {error}", file=sys.stderr)
        return 2
    # If the run has ended without this rank, the rank becomes a separate run.
    for uid in (order["uid"], secrets.token_hex(16)):
        sidecar = Sidecar(attempt, {**order, "uid": uid}, url, token)
        if sidecar.run():
            return 0
        if sidecar.is_unauthorized or not sidecar.is_refused:
            break
    return 1


def _remove(attempt: Attempt) -> None:
    """Remove the folder of an attempt, and its parent if that is empty."""
    attempt.forget()
    remove(attempt.folder)
    with suppress(OSError):
        attempt.folder.parent.rmdir()


def log_to_user(words: str) -> None:
    """Write a message to the job's output, if that is still open."""
    with suppress(OSError):
        # A single write, because other ranks may write there, too.
        sys.stderr.write(f"mlbench: {visible(words)}\n")
        sys.stderr.flush()


class Sidecar:
    """Records a rank: joins its run, and ends once everything is shipped or cannot be."""

    def __init__(
        self,
        attempt: Attempt,
        order: Mapping[str, Any],
        url: str,
        token: str,
        root: int | None = None,
        facts: "ReportedAttributes | None" = None,
        nowhere: str = "",
    ) -> None:
        """Connect to the master at ``url``, and start to watch the rank.

        Args:
            attempt: the folder of the rank.
            order: the request to join a run.
            url: the master's URL; "" without a master.
            token: the token to join.
            root: the process whose descendants are the rank; None for a rank that has ended.
            facts: the facts to report of the machine; None if they were reported.
            nowhere: the reason for which there is no master; "" if there is one.
        """
        self._attempt = attempt
        self._order = order
        self._url = url
        self._token = token
        self._link = self._connect()
        self._rank: RankRecorder | None = None
        self._root = root
        self._wake = threading.Event()
        self._problem = nowhere or "it does not answer"
        self.is_refused = bool(nowhere)
        self.is_unauthorized = False
        self._has_warned = False
        self._is_polled = threading.Event()
        self._describer: threading.Thread | None = None
        if facts is not None:
            self._describer = threading.Thread(target=self._describe, args=[facts], daemon=True)
            self._describer.start()
        if root is not None:
            attempt.process = process = ExternalProcess(root)
            process.watch(self._note_exit, attempt.hurry.set)

    def _connect(self) -> MasterClient:
        return MasterClient(self._url or "http://master.invalid", self._token)

    def run(self) -> bool:
        """Run until everything is shipped, or after the rank's end the master accepts nothing.

        Returns:
            Whether everything is shipped.
        """
        if self._url:
            # A separate thread, in case the master never completes a response.
            threading.Thread(target=self._talk, name="talk", daemon=True).start()
            if not self._attempt.ended.wait(_PATIENCE_SECONDS):
                self._warn()
        else:
            self._is_polled.set()
            self._warn()
        self._attempt.ended.wait()
        progress, since = None, time.monotonic()
        while True:
            rank, before, progress = self._rank, progress, None
            if rank is not None:
                has_shipped = rank.has_reported_exit and rank.shipper.has_shipped_all
                # The master may hold less than the shipper has sent.
                if has_shipped and rank.missing_bytes <= 0:
                    _remove(self._attempt)
                    return True
                if rank.shipper.refusal:
                    self._problem, self.is_refused = rank.shipper.refusal, True
                progress = rank.shipper.held, rank.has_reported_exit
            if progress != before:
                since = time.monotonic()
            if self.is_refused or time.monotonic() - since > _PATIENCE_SECONDS:
                self._give_up()
                return False
            time.sleep(0.02)

    def _give_up(self) -> None:
        """Keep what the master does not have, and tell the user where it is."""
        attempt, rank = self._attempt, self._rank
        if rank is not None:
            rank.shipper.quit()
        attempt.remember_exit()
        with suppress(OSError):  # not empty if the rank has left files
            attempt.output.rmdir()
            attempt.output.parent.rmdir()
        place = f"not at {self._url}" if self._url else "at no master"
        missing = rank.missing_bytes if rank else sum(attempt.sizes().values())
        log_to_user(
            f"{missing:,} bytes of what rank {self._order['rank']} recorded are {place} "
            f"({self._problem}): they lie in {attempt.folder}, and "
            f"`mlbench ship {attempt.folder}` sends them"
        )

    @cached_property
    def _gpus(self) -> Gpus:
        """The GPUs of the machine, connected on first use, because that may take seconds."""
        return Gpus()

    def _talk(self) -> None:
        backoff = Backoff(longest=_MAX_BACKOFF_SECONDS)
        while True:
            self._wake.clear()
            try:
                patience = min(self._turn(self._rank or self._join()), 60.0)
                backoff.reset()
                self.is_refused = False
                self._is_polled.set()
            except RequestRefusedError as error:
                self.is_unauthorized = error.status == HTTPStatus.UNAUTHORIZED
                problem = str(error)
                if self.is_unauthorized:
                    why = why_refused(self._token, time.time())
                    problem = f"{why}. `mlbench token join` prints a new one"
                if problem != self._problem:
                    log_to_user(f"not recorded at {self._url}: {problem}")
                self._problem, self.is_refused = problem, True
                if self._rank is not None:
                    return
                # An earlier run of the same job may still be active for a while.
                patience = _MAX_BACKOFF_SECONDS
            except Exception as error:
                # Any server may listen at this address, and send any response.
                self._problem, patience = str(error) or type(error).__name__, backoff.seconds()
                self._warn()
            self._wake.wait(patience)

    def _warn(self) -> None:
        """Print once, while the rank runs, that no master has accepted it."""
        if self._rank or self._has_warned or self._attempt.ended.is_set():
            return
        self._has_warned = True
        reason = f"{self._url} has not accepted it yet" if self._url else "no master is named"
        rank, folder = self._order["rank"], self._attempt.folder
        log_to_user(f"rank {rank} is recorded in {folder}: {reason} ({self._problem})")

    def _join(self) -> RankRecorder:
        """Join the run of the job, and start to ship."""
        order = dict(self._order)
        order["began_ago"] = max(0.0, time.time() - order.pop("began_at"))
        joined = self._link.join(order)
        self._link.close()
        self._token = joined.token
        self._link = self._connect()
        attempt, run_id = self._attempt, joined.run_id
        attempt.assignment = replace(attempt.assignment, run_id=run_id, attempt=joined.attempt)
        self._rank = RankRecorder(attempt, joined.pod, self._link, self._connect)
        with suppress(OSError):
            write_json(attempt.folder / names.RUN_FILE, run_id)
        if attempt.assignment.rank == 0:
            log_to_user(f"recorded as run {run_id}: {self._url}/runs/{run_id}")
        return self._rank

    def _turn(self, rank: RankRecorder) -> float:
        """Poll, and return the seconds until the next poll."""
        worker: dict[str, Any] = {"pod_uid": self._order["uid"]}
        if self._root is not None and not self._attempt.ended.is_set():
            usage, totals = read_usage(self._root, self._gpus), self._attempt.first_totals
            # The series of progress as in an agent's scrape, unless the rank records no steps.
            progress = {
                "mlbench_worker_progress_timestamp_seconds": totals.progress_at,
                "mlbench_worker_step_seconds_count": totals.steps,
                "mlbench_worker_step_seconds_sum": totals.step_seconds,
                "mlbench_worker_steps_total": totals.steps,
            }
            worker["resources"] = {**usage, **(progress if totals.progress_at else {})}
        reply = rank.poll(worker)
        return GRACE_SECONDS if reply.do == "stop" else reply.next_poll_seconds

    def _describe(self, facts: "ReportedAttributes") -> None:
        self._is_polled.wait()  # the first poll measures the offset of the clocks
        try:
            state = facts.state(self._attempt.assignment, self._link.clock.offset)
            self._attempt.describe_machine(state)
        except Exception:
            # The machine can train even if its facts cannot be determined.
            log.exception("cannot state the machine")

    def _note_exit(self, ended: Exit, failure: str, missing: str) -> None:
        """Note the end of the rank, and report it to the master immediately."""
        if self._describer is not None:
            # A short rank would lose the facts of its machine, so it waits some seconds for them.
            self._is_polled.wait(0.5)
            self._is_polled.set()
            self._describer.join(5.0)
        if lost := sum(totals.lost for totals in self._attempt.totals().values()):
            words = f"{lost:,} values could not be written: no room was left for them"
            log_to_user(f"{words}, of rank {self._order['rank']}")
            missing = "; ".join(filter(None, [words, missing]))
        self._attempt.conclude(ended, failure, missing, lost)
        self._wake.set()


if __name__ == "__main__":
    main()
