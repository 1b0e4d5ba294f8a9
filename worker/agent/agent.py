"""The agent's loop: say what is, hear what should be, and make it so."""

import logging
import os
import shutil
import socket
import threading
from collections.abc import Callable
from pathlib import Path

from worker.agent.attempt import Assignment, Attempt
from worker.agent.backoff import Backoff
from worker.agent.clock import Clock
from worker.agent.facts import Facts
from worker.agent.link import Link, LinkError, RefusedError, Reply
from worker.agent.scraped import WorkerCollector
from worker.agent.shipper import Shipper

log = logging.getLogger(__name__)


class Agent:
    """Runs at most one rank at a time, as the master says."""

    def __init__(
        self,
        pod: str,
        folder: Path,
        connect: Callable[[], Link],
        collector: WorkerCollector,
        pod_uid: str = "",
    ) -> None:
        self._pod = pod
        self._pod_uid = pod_uid
        self._folder = folder
        self._connect = connect
        self._collector = collector
        # The pod's token is not in it: the training process gets all of it.
        self._environ = dict(os.environ)
        self._facts = Facts(self._environ)
        self._clock = Clock()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._attempt: Attempt | None = None
        self._shipper: Shipper | None = None

    def run(self) -> None:
        """Poll until told to quit; then end the training process, if there is one."""
        if found := Attempt.resume(self._folder):
            log.info("found what a former agent left: %s", found.folder.name)
            self._take(found)
        link, backoff = self._connect(), Backoff()
        while not self._stopping.is_set():
            self._wake.clear()
            try:
                reply = link.poll(self._pod, self._report())
            except (LinkError, RefusedError) as error:
                patience = backoff.seconds()
                log.warning("cannot poll, trying again in %.1f s: %s", patience, error)
            else:
                backoff.reset()
                patience = reply.next_poll_seconds
                self._clock.note(reply.offset)
                self._follow(reply)
            if self._attempt is not None:
                self._attempt.enforce_stop()
            self._wake.wait(patience)
        link.close()
        self._end()

    def quit(self) -> None:
        """End soon."""
        self._stopping.set()
        self._wake.set()

    def _report(self) -> dict[str, object]:
        who = {"ip": _own_address(), "pod_uid": self._pod_uid}
        report: dict[str, object] = {"state": "idle", **who}
        if self._attempt is None:
            return report
        a, ended = self._attempt.assignment, self._attempt.exit
        report |= {"state": "running", "run_id": a.run_id, "attempt": a.attempt, "rank": a.rank}
        if ended is None:
            return report
        return report | {
            "state": "exited",
            "exit_code": ended.code,
            "exited_at": ended.at,
            "sizes": self._attempt.sizes(),
        }

    def _follow(self, reply: Reply) -> None:
        match reply.do:
            case "start" if self._attempt is None and reply.assignment is not None:
                self._start(Assignment.from_fields(reply.assignment))
            case "stop" if self._attempt is not None:
                self._stop(self._attempt)

    def _start(self, assignment: Assignment) -> None:
        for old in self._folder.glob("run-*"):
            shutil.rmtree(old)
        attempt = Attempt.create(self._folder, assignment)
        attempt.remove_old_checkpoints()
        log.info("starting %s: %s", attempt.folder.name, " ".join(assignment.command))
        self._state_facts(attempt)
        offset = self._clock.offset
        attempt.start(
            self._environ,
            on_exit=self._wake.set,
            clock_offset_seconds=offset.seconds if offset else 0.0,
        )
        self._take(attempt)
        self._wake.set()  # tell the master at once

    def _state_facts(self, attempt: Attempt) -> None:
        try:
            attempt.state(self._facts.state(attempt.assignment, self._clock.offset))
        except Exception:
            # A machine so odd that it cannot be described can still train.
            log.exception("cannot say what %s runs on", attempt.folder.name)

    def _stop(self, attempt: Attempt) -> None:
        if attempt.exit is None:
            attempt.stop()
        elif self._shipper is not None and not self._shipper.is_alive():
            log.info("done with %s", attempt.folder.name)
            attempt.forget()
            self._attempt = self._shipper = None
            self._collector.show_idle()

    def _take(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._collector.show(attempt)
        self._shipper = Shipper(attempt, self._connect())
        self._shipper.start()

    def _end(self) -> None:
        """End the process, within its grace; its folder is for the next agent."""
        if self._attempt is not None and self._attempt.exit is None:
            self._attempt.stop()
            while not self._attempt.ended.wait(0.1):
                self._attempt.enforce_stop()
        if self._shipper is not None:
            self._shipper.quit()
            self._shipper.join()


def _own_address() -> str:
    """Return the address that others reach this machine at; loopback where there is no network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Nothing is sent: connecting a datagram socket only looks up the route.
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        address: str = probe.getsockname()[0]
        return address
