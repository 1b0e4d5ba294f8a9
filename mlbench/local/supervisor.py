"""The supervisor: starts the processes of the local stack, and restarts those that end."""

import ctypes
import functools
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from mlbench.contract import names
from mlbench.contract.atomic_files import write_atomically
from mlbench.contract.errors import StackError
from mlbench.local.assets import prometheus_folder
from mlbench.local.home import Home, StackConnection
from mlbench.local.pool import LocalWorker, PoolFiles
from mlbench.local.stack_services import (
    Service,
    StackServices,
    alertmanager_targets,
    external_labels,
)

log = logging.getLogger(__name__)

_TICK_SECONDS = 1.0
_READY_SECONDS = 60.0
_TERMINATE_SECONDS = 10.0
# A process that ran for this long before it ended is restarted at once.
_STABLE_SECONDS = 30.0
_MAX_PAUSE_SECONDS = 10.0
# Abort the start after a service has exited this many times.
_ENDS_WHILE_STARTING = 3
_LAST_LINES = 10
# Working folder of services, without modules that they could import by mistake.
_RUN_IN = "/"
_PR_SET_PDEATHSIG = 1


@dataclass
class _Child:
    """The process of a service, which may have ended."""

    service: Service
    process: subprocess.Popen[bytes]
    started_at: float
    log_begin: int
    """Offset of its output in the log, in bytes."""
    pause: float = 0.0
    """Seconds from this start to the next one, at least."""
    restarts: int = 0

    @property
    def ends(self) -> int:
        """How often the service has ended."""
        return self.restarts + (self.process.poll() is not None)

    @property
    def keeps_ending(self) -> bool:
        return self.ends >= _ENDS_WHILE_STARTING

    def works(self) -> bool:
        return self.process.poll() is None and self.service.answers()


class Supervisor:
    """Keeps one stack running until ``quit`` is called."""

    def __init__(
        self,
        home: Home,
        services: StackServices,
        workers: int,
        on_ready: Callable[[StackConnection], None],
    ) -> None:
        self._home = home
        self._services = services
        self._workers = workers
        self._on_ready = on_ready
        self._pool = PoolFiles(home)
        self._children: dict[str, _Child] = {}
        self._quit = threading.Event()
        self._failing: dict[str, str] = {}
        """Last logged error by failure, of failures that continue."""

    def run(self) -> None:
        """Start everything, keep it running, and end it all after ``quit``.

        Raises:
            StackError: the stack does not get ready.
        """
        self._prepare()
        try:
            for service in self._services.fixed:
                self._start(service)
            self._adjust_workers()
            if self._wait_until_ready():
                self._home.write_connection(self._services.connection)
                self._on_ready(self._services.connection)
            while not self._quit.wait(_TICK_SECONDS):
                self._restart_dead()
                with self._tried_again("the workers cannot be adjusted"):
                    self._adjust_workers()
        finally:
            with suppress(OSError):
                self._home.connection_file.unlink(missing_ok=True)
            # The workers end first, so that the master gets their last messages; Prometheus last.
            self._end(self._workers_now())
            for service in reversed(self._services.fixed):
                if service.name in self._children:
                    self._end([self._children[service.name]])
            self._children.clear()

    def quit(self) -> None:
        """Have ``run`` end everything and return."""
        self._quit.set()

    @contextmanager
    def _tried_again(self, failure: str) -> Iterator[None]:
        """Survive an error such as a full disk, because the next tick retries. Log it once."""
        try:
            yield
        except (OSError, StackError) as error:
            if self._failing.get(failure) != str(error):
                self._failing[failure] = str(error)
                log.error("%s, trying again: %s", failure, error)
        else:
            if self._failing.pop(failure, None) is not None:
                log.info("no more: %s", failure)

    def _prepare(self) -> None:
        # Workers of the last stack had other ports, so write even an equal status again.
        for file in (self._home.pool_spec, self._home.pool_status):
            file.unlink(missing_ok=True)
        self._home.logs.mkdir(parents=True, exist_ok=True)
        # The configuration is in the folder of the scrape targets, without old rules.
        source, home = prometheus_folder(), self._home.prometheus
        shutil.rmtree(home / "rules", ignore_errors=True)
        # copyfile: the originals may be read by everyone, the copies must not.
        shutil.copytree(source / "rules", home / "rules", copy_function=shutil.copyfile)
        labels = external_labels(os.environ.get(names.ENV_EXTERNAL_LABELS, ""))
        config = (source / "prometheus.yml").read_text()
        added = f"global:\n  external_labels: {json.dumps(labels)}\n"
        write_atomically(home / "prometheus.yml", config.replace("global:\n", added, 1))
        # For another Prometheus, which has a job of itself: with absolute paths. A path in JSON is
        # also one in YAML.
        _, job, jobs = config.partition("  - job_name: master\n")
        jobs = re.sub(
            r"\[(targets/\w+\.json)\]", lambda match: json.dumps([str(home / match[1])]), jobs
        )
        write_atomically(self._home.scrape_jobs, f"scrape_configs:\n{job}{jobs}")
        managers = alertmanager_targets(os.environ.get(names.ENV_ALERTMANAGERS, ""))
        write_atomically(home / "targets" / "alertmanagers.json", json.dumps(managers))
        # The last stack may have had an Alertmanager.
        (home / "targets" / "alertmanager.json").unlink(missing_ok=True)
        for service in self._services.fixed:
            if service.port is not None:
                self._write_targets(service.name, [service])

    def _wait_until_ready(self) -> bool:
        """Wait until the services work; false if ``quit`` was called meanwhile.

        A worker that does not work in time, or keeps ending, is passed over.
        """
        deadline = time.monotonic() + _READY_SECONDS
        while not self._quit.wait(0.05):
            late = time.monotonic() > deadline
            children = [c for c in self._children.values() if not c.service.optional]
            waiting = [child for child in children if not child.works()]
            required = [child for child in waiting if not child.service.is_worker]
            if not required and (late or all(child.keeps_ending for child in waiting)):
                for child in waiting:
                    text = f"the stack starts without {child.service.name}, which is tried again"
                    log.warning("%s; %s", text, self._last_words(child))
                return True
            for child in required:
                # The service reports that its settings are wrong, so restarts do not help.
                if child.process.poll() == os.EX_CONFIG:
                    raise StackError(self._last_lines(child))
                if child.keeps_ending:
                    text = f"{child.service.name} ended {child.ends} times while the stack started"
                    raise StackError(f"{text}; {self._last_words(child)}")
            if late:
                names = ", ".join(child.service.name for child in required)
                text = f"not ready after {_READY_SECONDS:.0f} s: {names}"
                raise StackError(f"{text}; {self._last_words(required[0])}")
            self._restart_dead()
        return False

    def _last_words(self, child: _Child) -> str:
        return f"the end of {self._log_file(child.service)}:\n{self._last_lines(child)}"

    def _last_lines(self, child: _Child) -> str:
        output = self._log_file(child.service).read_bytes()[child.log_begin :]
        return "\n".join(output.decode(errors="replace").splitlines()[-_LAST_LINES:])

    def _start(self, service: Service, pause: float = 0.0, restarts: int = 0) -> None:
        with self._open_log(service) as output:
            log_begin = output.tell()
            try:
                process = subprocess.Popen(
                    service.command,
                    env=service.environ,
                    cwd=_RUN_IN,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    # Ctrl-C in a terminal is for the supervisor, which ends the rest in order.
                    start_new_session=True,
                    # Safe: the supervisor has no other thread that could hold a lock.
                    preexec_fn=functools.partial(_begin_service, os.getpid(), service.cores),  # noqa: PLW1509
                )
            except OSError as error:
                if service.optional:
                    log.warning("%s cannot be started: %s", service.name, error)
                    return
                raise StackError(f"cannot start {service.name}: {error}") from error
        log.info("started %s (process %d)", service.name, process.pid)
        now = time.monotonic()
        self._children[service.name] = _Child(service, process, now, log_begin, pause, restarts)

    def _open_log(self, service: Service) -> BinaryIO:
        """Open a service's log; /dev/null if the log cannot be written."""
        try:
            return self._log_file(service).open("ab")
        except OSError as error:
            log.error("%s has no log until it is restarted: %s", service.name, error)
            return Path(os.devnull).open("ab")

    def _log_file(self, service: Service) -> Path:
        return self._home.logs / f"{service.name}.log"

    def _restart_dead(self) -> None:
        for child in list(self._children.values()):
            code = child.process.poll()
            age = time.monotonic() - child.started_at
            if code is None or age < child.pause:
                continue
            again_soon = age < _STABLE_SECONDS
            if again_soon and child.service.optional and child.pause >= _MAX_PAUSE_SECONDS:
                name, log_file = child.service.name, self._log_file(child.service)
                log.warning("%s keeps ending, and is left out; see %s", name, log_file)
                del self._children[name]
                continue
            pause = min(max(1.0, child.pause * 2), _MAX_PAUSE_SECONDS) if again_soon else 0.0
            with self._tried_again(f"{child.service.name} ended with code {code} and cannot start"):
                self._start(child.service, pause, child.restarts + 1)
                log.warning("%s ended with code %d; restarted it", child.service.name, code)

    def _adjust_workers(self) -> None:
        """Run the number of workers that the controller's pool requests, and report them."""
        count = self._pool.read_wanted() or self._workers
        services = [self._services.worker(number) for number in range(count)]
        for service in services:
            if service.name not in self._children:
                with self._tried_again(f"{service.name} cannot be started"):
                    self._start(service)
        names = {service.name for service in services}
        surplus = [child for child in self._workers_now() if child.service.name not in names]
        for child in surplus:
            del self._children[child.service.name]
        self._end(surplus)
        status = []
        for service in services:
            if service.name not in self._children:
                continue
            code = self._children[service.name].process.poll()
            if code is None:
                status.append(LocalWorker(service.name, alive=True, port=service.port or 0))
            else:
                trouble = f"its agent ended with {code}: see {self._log_file(service)}"
                status.append(LocalWorker(service.name, alive=False, trouble=trouble))
        if status != self._pool.read_status():
            # In this order, because readers of the status rely on the targets.
            self._write_targets("workers", services)
            self._pool.write_status(status)

    def _workers_now(self) -> list[_Child]:
        return [child for child in self._children.values() if child.service.is_worker]

    def _write_targets(self, job: str, services: Iterable[Service]) -> None:
        # Instances have names, because an address may change with a restart. Alerts would then
        # name the former address for minutes.
        groups = [
            {
                "targets": [service.address],
                "labels": {"__metrics_path__": service.metrics_path, "instance": service.name},
            }
            for service in services
        ]
        path = self._home.prometheus / "targets" / f"{job}.json"
        write_atomically(path, json.dumps(groups))

    def _end(self, children: list[_Child]) -> None:
        for child in children:
            child.process.terminate()
        deadline = time.monotonic() + _TERMINATE_SECONDS
        for child in children:
            try:
                child.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                log.warning("%s does not end; killing it", child.service.name)
                child.process.kill()
                child.process.wait()
            log.info("ended %s", child.service.name)


def _begin_service(supervisor: int, cores: frozenset[int] | None) -> None:
    """Bind this process to cores, and have the kernel end it when the supervisor ends."""
    if cores:
        os.sched_setaffinity(0, cores)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != supervisor:
        os._exit(1)
