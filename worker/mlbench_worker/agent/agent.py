"""The agent's loop: report its state to the master, and follow the reply."""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from mlbench.contract.assignment import Assignment
from mlbench.contract.masking import mask_words
from mlbench.local.backoff import Backoff
from mlbench.local.home import Home
from mlbench_worker.agent.attempt import Attempt
from mlbench_worker.agent.attempt_files import OUTPUT
from mlbench_worker.agent.fork_servers import ForkServers
from mlbench_worker.agent.master_client import (
    MasterClient,
    MasterClientError,
    RequestRefusedError,
)
from mlbench_worker.agent.metrics_endpoint import WorkerCollector
from mlbench_worker.agent.rank_network import address_towards, attach
from mlbench_worker.agent.rank_recorder import RankRecorder
from mlbench_worker.agent.reported_attributes import ReportedAttributes
from mlbench_worker.agent.stream_files import remove
from mlbench_worker.agent.training_process import end_left

log = logging.getLogger(__name__)


class Agent:
    """Runs at most one rank at a time, as directed by the master."""

    def __init__(
        self,
        pod: str,
        folder: Path,
        connect: Callable[[], MasterClient],
        collector: WorkerCollector,
        start_in: Path,
        pod_uid: str = "",
    ) -> None:
        self._pod = pod
        self._pod_uid = pod_uid
        self._folder = folder
        self._connect = connect
        self._collector = collector
        self._start_in = start_in
        # The training process inherits all of it, so it must not contain the pod's token.
        self._environ = dict(os.environ)
        self._facts = ReportedAttributes(self._environ)
        self._link = connect()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._rank: RankRecorder | None = None
        self._fork_servers = ForkServers(self._environ)
        self._is_busy = True  # until the master says that no run is active

    def run(self) -> None:
        """Poll until ``quit`` is called; then end the training process, if any."""
        end_left(self._folder)
        if resumed := Attempt.resume(self._folder):
            log.info("resuming what a former agent left: %s", resumed.folder.name)
            self._take(resumed)
        backoff = Backoff()
        while not self._stopping.is_set():
            self._wake.clear()
            try:
                patience = self._turn(backoff)
            except (OSError, RuntimeError):
                # For example, file descriptors or threads may be available again later.
                log.exception("unexpected error, trying again")
                patience = backoff.seconds()
            self._wake.wait(patience)
        self._link.close()
        # The folder of the attempt stays for the next agent.
        if self._rank is not None:
            attempt, shipper = self._rank.attempt, self._rank.shipper
            if attempt.exit is None:
                attempt.stop()
                while not attempt.ended.wait(0.1):
                    attempt.enforce_stop()
            shipper.quit()
            shipper.join()
        self._fork_servers.close()

    def listen(self, host: str, port: int) -> None:
        """Start a thread that polls immediately after each datagram, besides the regular polls."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        wakeups = socket.socket(family, socket.SOCK_DGRAM)
        try:
            wakeups.bind((host, port))
        except OSError as error:
            log.warning("the master cannot wake this agent: %s", error)
            wakeups.close()
            return

        def run() -> None:
            while True:
                wakeups.recv(1)
                self._wake.set()
                time.sleep(0.05)  # anybody may send datagrams: this limits the polls per second

        threading.Thread(target=run, name="listener", daemon=True).start()

    def quit(self) -> None:
        """Ask the agent to end soon."""
        self._stopping.set()
        self._wake.set()

    def _turn(self, backoff: Backoff) -> float:
        """Poll, follow the reply, and return the seconds until the next poll."""
        rank = self._rank
        worker = {"pod_uid": self._pod_uid, "fork_server": self._fork_servers.are_ready}
        try:
            idle = {"state": "idle", "ip": address_towards(), **worker}
            reply = rank.poll(worker) if rank else self._link.poll(self._pod, idle)
        except (MasterClientError, RequestRefusedError) as error:
            patience = backoff.seconds()
            log.warning("cannot poll, trying again in %.1f s: %s", patience, error)
        else:
            backoff.reset()
            patience = reply.next_poll_seconds
            if rank is None and reply.do == "start" and reply.assignment is not None:
                self._start(Assignment.from_fields(reply.assignment))
            elif rank and reply.do == "stop" and rank.has_ended:
                log.info("done with %s", rank.attempt.folder.name)
                rank.attempt.forget()
                self._rank = None
                self._collector.show_idle()
            self._is_busy = reply.busy or self._rank is not None
        if self._rank is not None:
            self._rank.attempt.enforce_stop()
            self._rank.attempt.remember_exit()
        self._fork_servers.note(is_busy=self._is_busy)
        return patience

    def _start(self, assignment: Assignment) -> None:
        for old in self._folder.glob("run-*"):
            remove(old)
        if self._pod_uid:  # the disk of a pod is small, and is deleted with the pod
            remove(self._folder / OUTPUT)
        assignment = replace(assignment, working_dir=assignment.working_dir or str(self._start_in))
        try:
            attempt = Attempt.create(self._folder, assignment)
        except OSError as error:
            log.exception("cannot make a folder for run %d", assignment.run_id)
            attempt = Attempt(self._folder / "none", assignment, lambda path: None)
            attempt.fail(f"it cannot keep its files: {error}")
        # The shipper comes first: without a thread for it, the process must not start.
        self._take(attempt)
        if attempt.exit is None:
            self._begin(attempt)
        self._wake.set()  # report to the master immediately

    def _begin(self, attempt: Attempt) -> None:
        attempt.prepare_checkpoints()
        command = " ".join(mask_words(attempt.assignment.command))
        log.info("starting %s: %s", attempt.folder.name, command)
        offset, attachment = self._link.clock.offset, attempt.assignment.attachment
        network, server = None, self._fork_servers.find(attempt.assignment)
        try:
            if attachment:
                network = attach(attachment, Home.from_environ(self._environ).switch)
            shaping = network.shaping if network else None
            try:
                facts = self._facts.state(
                    attempt.assignment, offset, shaping, is_forked=server is not None
                )
            except Exception:
                # The machine can train even if its facts cannot be determined.
                log.exception("cannot state the machine of %s", attempt.folder.name)
            else:
                attempt.describe_machine(facts)
            attempt.start(
                self._environ,
                on_exit=self._wake.set,
                network=network,
                clock_offset_seconds=offset.seconds if offset else 0.0,
                is_pod=bool(self._pod_uid),
                forkserver=server,
            )
        except (OSError, RuntimeError, ValueError) as error:
            log.exception("cannot start %s", attempt.folder.name)
            if network is not None:
                network.close()
            attempt.fail(f"its agent cannot start it: {error}")

    def _take(self, attempt: Attempt) -> None:
        self._rank = RankRecorder(attempt, self._pod, self._link, self._connect)
        if attempt.counters.is_dir():
            self._collector.show(attempt)
