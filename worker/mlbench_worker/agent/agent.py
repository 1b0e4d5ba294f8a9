"""The agent's loop: report its state to the master, and do as the answer says."""

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
from mlbench.local.traffic import Traffic, traffic_from_now
from mlbench_worker.agent.attempt import OUTPUT, Attempt
from mlbench_worker.agent.autopsy.autopsies import Autopsies
from mlbench_worker.agent.facts import Facts
from mlbench_worker.agent.faults import Faults
from mlbench_worker.agent.files import remove
from mlbench_worker.agent.forkserver import ForkServers
from mlbench_worker.agent.link import Link, LinkError, RefusedError, Reply
from mlbench_worker.agent.network import Network, address_towards, attach
from mlbench_worker.agent.process import end_left
from mlbench_worker.agent.scraped import WorkerCollector, read_progress
from mlbench_worker.agent.shipper import Shipper

log = logging.getLogger(__name__)

_LEAST_PATIENCE_SECONDS = 0.05


class Agent:
    """Runs at most one rank at a time, as the master says."""

    def __init__(
        self,
        pod: str,
        folder: Path,
        connect: Callable[[], Link],
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
        # The training process gets all of it, so the pod's token must not be in it.
        self._environ = dict(os.environ)
        self._facts = Facts(self._environ)
        self._link = connect()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._attempt: Attempt | None = None
        self._shipper: Shipper | None = None
        self._fork_servers = ForkServers(self._environ)
        self._autopsies = Autopsies(connect, read_progress)
        self._faults = Faults(pod, connect, lambda: self._attempt, lambda: self._link.clock.offset)
        # Until the master says that no run is active.
        self._is_busy = True

    def run(self) -> None:
        """Poll until ``quit`` is called; then end the training process, if there is one."""
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
                # For instance no file descriptor or thread is left: there may be one later.
                log.exception("cannot go on, trying again")
                patience = backoff.seconds()
            self._wake.wait(patience)
        self._link.close()
        self._end()

    def listen(self, host: str, port: int) -> None:
        """Poll at once whenever a datagram comes here, in a thread; without it, when it is time."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        woken = socket.socket(family, socket.SOCK_DGRAM)
        try:
            woken.bind((host, port))
        except OSError as error:
            log.warning("the master cannot wake this agent: %s", error)
            woken.close()
            return

        def run() -> None:
            while True:
                woken.recv(1)
                self._wake.set()
                # However many come: anybody may send them.
                time.sleep(_LEAST_PATIENCE_SECONDS)

        threading.Thread(target=run, name="listener", daemon=True).start()

    def quit(self) -> None:
        """Ask the agent to end soon."""
        self._stopping.set()
        self._wake.set()

    def _turn(self, backoff: Backoff) -> float:
        """Poll, do what the master says, and return the seconds until the next poll."""
        try:
            reply = self._link.poll(self._pod, self._report())
        except (LinkError, RefusedError) as error:
            patience = backoff.seconds()
            log.warning("cannot poll, trying again in %.1f s: %s", patience, error)
        else:
            backoff.reset()
            patience = reply.next_poll_seconds
            self._follow(reply)
            self._is_busy = reply.busy or self._attempt is not None
        if self._attempt is not None:
            self._attempt.enforce_stop()
            self._attempt.remember_exit()
        self._fork_servers.note(is_busy=self._is_busy)
        return patience

    def _report(self) -> dict[str, object]:
        report: dict[str, object] = {
            "state": "idle",
            "ip": address_towards(),
            "pod_uid": self._pod_uid,
            "fork_server": self._fork_servers.are_ready,
        }
        if self._attempt is None:
            return report
        return report | self._attempt.report()

    def _follow(self, reply: Reply) -> None:
        match reply.do:
            case "start" if self._attempt is None and reply.assignment is not None:
                self._start(Assignment.from_fields(reply.assignment))
            case "stop" if self._attempt is not None:
                self._stop(self._attempt)
        if self._attempt is not None:
            attempt = self._attempt
            self._autopsies.follow(reply, self._pod, attempt, attempt.pid)
            self._faults.follow(reply.faults, attempt.assignment)

    def _start(self, assignment: Assignment) -> None:
        for old in self._folder.glob("run-*"):
            remove(old)
        if self._pod_uid:  # its disk is small, and goes with it
            remove(self._folder / OUTPUT)
        assignment = replace(assignment, working_dir=assignment.working_dir or str(self._start_in))
        try:
            attempt = Attempt.create(self._folder, assignment)
        except OSError as error:
            log.exception("cannot make a folder for run %d", assignment.run_id)
            attempt = Attempt(self._folder / "none", assignment, lambda path: None)
            attempt.fail(f"it cannot keep its files: {error}")
        # The shipper first: there may be no thread left for it, and no process may go without.
        self._take(attempt)
        if attempt.exit is None:
            self._begin(attempt)
        self._wake.set()  # tell the master at once

    def _begin(self, attempt: Attempt) -> None:
        attempt.remove_old_checkpoints()
        command = " ".join(mask_words(attempt.assignment.command))
        log.info("starting %s: %s", attempt.folder.name, command)
        offset, attachment = self._link.clock.offset, attempt.assignment.attachment
        network, server = None, self._fork_servers.find(attempt.assignment)
        try:
            if attachment:
                network = attach(attachment, Home.from_environ(self._environ).switch)
            self._state_machine(attempt, network, is_forked=server is not None)
            attempt.start(
                self._environ,
                on_exit=self._wake.set,
                network=network,
                clock_offset_seconds=offset.seconds if offset else 0.0,
                traffic=self._counter(network),
                # In a cluster, whose pods have uids, others are none of its users' business.
                name_others=not self._pod_uid,
                forkserver=server,
            )
        except (OSError, RuntimeError, ValueError) as error:
            log.exception("cannot start %s", attempt.folder.name)
            if network is not None:
                network.close()
            attempt.fail(f"its agent cannot start it: {error}")

    def _counter(self, network: Network | None) -> Callable[[], Traffic] | None:
        """Return what counts a rank's traffic; None where it shares a machine's network."""
        if network is not None:
            return network.traffic
        return traffic_from_now() if self._pod_uid else None

    def _state_machine(self, attempt: Attempt, network: Network | None, *, is_forked: bool) -> None:
        try:
            shaping = network.shaping if network else None
            offset = self._link.clock.offset
            facts = self._facts.state(attempt.assignment, offset, shaping, is_forked=is_forked)
        except Exception:
            # A machine that cannot be described can still train.
            log.exception("cannot state the machine of %s", attempt.folder.name)
        else:
            attempt.state(facts)

    def _stop(self, attempt: Attempt) -> None:
        if attempt.exit is None:
            attempt.stop()
        elif self._shipper is not None and not self._shipper.is_alive():
            log.info("done with %s", attempt.folder.name)
            attempt.forget()
            self._attempt = self._shipper = None
            self._collector.show_idle()

    def _take(self, attempt: Attempt) -> None:
        shipper = Shipper(attempt, self._connect())
        shipper.start()
        self._attempt, self._shipper = attempt, shipper
        if attempt.counters.is_dir():
            self._collector.show(attempt)

    def _end(self) -> None:
        """End the process, within its grace; its folder stays for the next agent."""
        if self._attempt is not None and self._attempt.exit is None:
            self._attempt.stop()
            while not self._attempt.ended.wait(0.1):
                self._attempt.enforce_stop()
        if self._shipper is not None:
            self._shipper.quit()
            self._shipper.join()
        self._fork_servers.close()
