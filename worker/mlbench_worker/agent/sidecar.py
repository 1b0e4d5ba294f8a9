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
from mlbench.contract.join_token import why_refused
from mlbench.contract.limits import MAX_COMMAND_LENGTH
from mlbench.contract.names import ProgressName
from mlbench.local.backoff import Backoff
from mlbench.tracking.job import Job
from mlbench.tracking.job_totals import JobTotals
from mlbench_worker.agent import environment
from mlbench_worker.agent.attempt import Attempt
from mlbench_worker.agent.diagnosis.rank_diagnoses import Diagnoses
from mlbench_worker.agent.external_rank import LOOK_SECONDS, ExternalRank, log_to_user, totals_of
from mlbench_worker.agent.external_usage import read_usage
from mlbench_worker.agent.gpus import Gpus
from mlbench_worker.agent.master_client import JoinResponse, MasterClient, RequestRefusedError
from mlbench_worker.agent.rank_network import address_towards
from mlbench_worker.agent.shipper import Shipper
from mlbench_worker.agent.stream_files import read_json, remove, write_json
from mlbench_worker.agent.training_process import GRACE_SECONDS

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
        master_addr="",
        master_port=0,
        command=tuple(request["command"]),
        cpus=(),
        keeps_checkpoints=False,
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
    # The rank starts now. Slow imports come after this, so that it does not wait for them.
    from mlbench_worker.agent import trainjob  # noqa: PLC0415
    from mlbench_worker.agent.reported_attributes import ReportedAttributes  # noqa: PLC0415

    facts = ReportedAttributes(dict(os.environ))
    observation.measure(f"{names.ENV_JOB}={job.key}", name_others=True)
    rank = ExternalRank(attempt, root)
    recording = RecordedProcess(attempt, order, url, token, facts, rank, request["nowhere"])
    rank.listen(recording.describe, recording.wake.set, attempt.hurry.set)
    trainjob.start(attempt, os.environ)
    recording.run()


def resume(request: Mapping[str, Any], url: str, token: str) -> None:
    """Resume shipping from the ``folder`` of a killed recorder; ``record`` describes the rest."""
    attempt = Attempt.open_running(Path(request["folder"]))
    order = read_json(attempt.folder / _JOB)
    rank = ExternalRank(attempt, int(request["root"]))
    recording = RecordedProcess(attempt, order, url, token, rank=rank, nowhere=request["nowhere"])
    rank.listen(lambda: None, recording.wake.set, attempt.hurry.set)
    recording.run()


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
        recording = RecordedProcess(attempt, {**order, "uid": uid}, url, token)
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
    """Return the series of progress as in an agent's scrape; empty if the rank records no steps.

    They are those of the rank's first process, because the processes of a rank wait for each other.
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


class RecordedProcess:
    """Ships a rank's values to the master."""

    def __init__(
        self,
        attempt: Attempt,
        order: Mapping[str, Any],
        url: str,
        token: str,
        facts: "ReportedAttributes | None" = None,
        rank: ExternalRank | None = None,
        nowhere: str = "",
    ) -> None:
        """Connect to the master at ``url``.

        Args:
            attempt: the folder of the rank.
            order: the request to join a run.
            url: the master's URL; "" without a master.
            token: the token to join.
            facts: the facts to report of the machine; None if they were reported.
            rank: the running rank, whose usage is reported, and which the master can stop.
            nowhere: the reason for which there is no master; "" if there is one.
        """
        self._facts = facts
        self._is_polled = threading.Event()
        self._attempt = attempt
        self._order = order
        self._url = url
        self._rank = rank
        self._diagnoses = Diagnoses(self._connect, _last_step)
        self.wake = threading.Event()
        """Set when the rank's end should be reported to the master immediately."""
        self._token = token
        self._link = self._connect()
        self._joined: JoinResponse | None = None
        self._shipper: Shipper | None = None
        self._problem = nowhere or "it does not answer"
        self.is_refused = bool(nowhere)
        self.is_unauthorized = False
        self._has_told_end = False
        self._has_warned = False
        self._progress: object = None
        self._progress_at = 0.0
        self._describer = threading.Thread(target=self._describe, name="describer", daemon=True)
        if facts is not None:
            self._describer.start()

    def _connect(self) -> MasterClient:
        return MasterClient(self._url or "http://master.invalid", self._token)

    def describe(self) -> None:
        """Wait some seconds for the facts of the machine, which a short rank would lose."""
        self._is_polled.wait(0.5)
        self._is_polled.set()
        self._describer.join(5.0)

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
        while not (self._is_done() or self._is_stuck()):
            time.sleep(LOOK_SECONDS)
        if self._is_done():
            _remove(self._attempt)
            return True
        if self._shipper is not None:
            self._shipper.quit()
        self._attempt.remember_exit()
        with suppress(OSError):  # not empty if the rank has left files
            self._attempt.output.rmdir()
            self._attempt.output.parent.rmdir()
        folder = self._attempt.folder
        place = f"not at {self._url}" if self._url else "at no master"
        log_to_user(
            f"{self._left():,} bytes of what rank {self._order['rank']} recorded are {place} "
            f"({self._problem}): they lie in {folder}, and `mlbench ship {folder}` sends them"
        )
        return False

    @cached_property
    def _gpus(self) -> Gpus:
        """The GPUs of the machine, connected on first use, because that may take seconds."""
        return Gpus()

    def _talk(self) -> None:
        backoff = Backoff(longest=_MAX_BACKOFF_SECONDS)
        while True:
            self.wake.clear()
            try:
                patience = min(self._turn(), 60.0)
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
                if self._joined is not None:
                    return
                # An earlier run of the same job may still be active for a while.
                patience = _MAX_BACKOFF_SECONDS
            except Exception as error:
                # Any server may listen at this address, and send any response.
                self._problem, patience = str(error) or type(error).__name__, backoff.seconds()
                self._warn()
            self.wake.wait(patience)

    def _warn(self) -> None:
        """Print once, while the rank runs, that no master has accepted it."""
        if self._rank is None or self._joined or self._has_warned or self._attempt.ended.is_set():
            return
        self._has_warned = True
        reason = f"{self._url} has not accepted it yet" if self._url else "no master is named"
        rank, folder = self._order["rank"], self._attempt.folder
        log_to_user(f"rank {rank} is recorded in {folder}: {reason} ({self._problem})")

    def _turn(self) -> float:
        """Join if necessary, poll, and follow the reply; return the seconds until the next poll."""
        joined = self._joined
        if joined is None:
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
                log_to_user(f"recorded as run {run_id}: {self._url}/runs/{run_id}")
        has_ended = self._attempt.ended.is_set()
        report = {"ip": address_towards(), "pod_uid": self._order["uid"], **self._attempt.report()}
        if self._rank and not has_ended:
            usage = read_usage(self._rank.root, self._gpus)
            report["resources"] = {**usage, **_progress(self._attempt)}
        reply = self._link.poll(joined.pod, report)
        self._has_told_end = has_ended
        pid = self._rank.pid if self._rank else None
        self._diagnoses.follow(reply, joined.pod, self._attempt, pid)
        if reply.do == "stop" and self._rank and not has_ended:
            self._rank.stop()
            return GRACE_SECONDS
        return reply.next_poll_seconds

    def _describe(self) -> None:
        assert self._facts is not None
        self._is_polled.wait()  # the first poll measures the offset of the clocks
        try:
            facts = self._facts.state(self._attempt.assignment, self._link.clock.offset)
            self._attempt.append([{"machine": facts}])
        except Exception:
            # The machine can train even if its facts cannot be determined.
            log.exception("cannot state the machine")

    def _is_done(self) -> bool:
        shipper = self._shipper
        if not (self._has_told_end and shipper and shipper.has_shipped_all):
            return False
        return self._left() <= 0  # the master may hold less than the shipper has sent

    def _left(self) -> int:
        return sum(self._attempt.sizes().values()) - (self._shipper.held if self._shipper else 0)

    def _is_stuck(self) -> bool:
        """Return whether the master refuses the rest, or has accepted nothing for a while."""
        if self._shipper is not None and self._shipper.refusal:
            self._problem, self.is_refused = self._shipper.refusal, True
        if self.is_refused:
            return True
        progress = (self._shipper.held if self._shipper else None, self._has_told_end)
        if progress != self._progress:
            self._progress, self._progress_at = progress, time.monotonic()
        return time.monotonic() - self._progress_at > _PATIENCE_SECONDS


if __name__ == "__main__":
    main()
