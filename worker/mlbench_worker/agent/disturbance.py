"""Measures what keeps a rank from its cores: a thread that reads the kernel's counts now and then.

A thread waits when it could run, and another one has the core. How much of its time a rank waited
is judged by what all its threads did together in an interval. They wanted cores for the time that
they ran and waited; where that is longer than the interval, as several wanted one at a time, the
part of it that they waited counts, else the part of the interval. So a rank that sleeps does not
wait, and neither does one with more threads wait more than one whose threads wait as much each.

Threads wait for others at most for the part of the cores' time that others had. Of that, the share
of MLBench's own processes on this machine is told apart from that of other programs. Beyond, they
wait for each other, for other ranks of their run, or because of their container's limit: that is
the run's own doing, and no disturbance.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import fields, replace
from typing import Any, TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from mlbench.contract import names
from mlbench.contract.records import Disturbance
from mlbench_worker.agent.halts import LOOK_SECONDS, Halts
from mlbench_worker.agent.kernel import Kernel, Process, Snapshot, Thread

log = logging.getLogger(__name__)

# Intervals grow with a run up to the longest; no more than a part of a core goes into measuring.
_SHORTEST_SECONDS, _LONGEST_SECONDS = 1.0, 5.0
_OF_ELAPSED = 0.1
_PAUSE_BY_COST = 200
_MOST_NAMES = 5


class Watch(threading.Thread):
    """Measures a rank's processes until ``end`` is called."""

    def __init__(
        self,
        open_kernel: Callable[[], Kernel],
        has_recorded: Callable[[], bool],
        is_stopped_by_fault: Callable[[], bool] = lambda: False,
        *,
        name_others: bool,
    ) -> None:
        """Prepare to measure.

        Args:
            open_kernel: opens what the kernel counts of the rank.
            has_recorded: checks whether the process has recorded a line.
            is_stopped_by_fault: checks whether an injected failure stops the processes now.
            name_others: whether to name the programs that use the rank's cores.
        """
        super().__init__(name="watch", daemon=True)
        self._open_kernel = open_kernel
        self._has_recorded = has_recorded
        self._is_stopped_by_fault = is_stopped_by_fault
        self._name_others = name_others
        self._over = threading.Event()
        self._halts = Halts()
        self._training: Disturbance | None = None
        self.total: Disturbance | None = None
        """What was measured since the process began; None at first."""

    def run(self) -> None:
        """Measure interval after interval."""
        try:
            kernel = self._open_kernel()
            self._measure(kernel)
            kernel.gpus.close()
        except Exception:
            # A machine that cannot be measured can still train.
            log.exception("cannot measure any more")

    def _measure(self, kernel: Kernel) -> None:
        began = time.monotonic()
        before, trains, pause = kernel.read(), False, _SHORTEST_SECONDS
        while not self._is_over_after(pause, {pid for pid, _ in before.threads}):
            cost_began = time.thread_time()
            after = kernel.read()
            measured = measure(before, after, kernel.cores)
            if not self._name_others:
                measured = replace(measured, top={})
            self.total = add(self.total, measured)
            if trains:
                self._training = add(self._training, measured)
            trains = trains or self._has_recorded()
            before = after
            cost = time.thread_time() - cost_began
            usual = min((after.at - began) * _OF_ELAPSED, _LONGEST_SECONDS)
            pause = max(usual, _SHORTEST_SECONDS, cost * _PAUSE_BY_COST)

    def _is_over_after(self, seconds: float, processes: Set[int]) -> bool:
        """Wait for some time or the end, and look meanwhile whether the processes stand still."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self._over.wait(min(left, LOOK_SECONDS)):
                return True
            self._halts.look(set() if self._is_stopped_by_fault() else processes)
        return False

    def end(self) -> Disturbance | None:
        """End, and return what was measured over the training; None if it was too short."""
        self._over.set()
        self.join()
        found = self._training or self.total
        if found is None:
            return None
        most = sorted(found.top.items(), key=lambda one: -one[1])[:_MOST_NAMES]
        return replace(found, top=dict(most), stopped=self._halts.spans())


def measure(before: Snapshot, after: Snapshot, cores: Set[int]) -> Disturbance:
    """Return what happened between two snapshots of a rank that may run on some cores."""
    seconds = after.at - before.at
    threads = [_increase(before.threads.get(key), now) for key, now in after.threads.items()]
    running = sum(thread.running_seconds for thread in threads)
    waited = sum(thread.waiting_seconds for thread in threads)
    throttled = others = stolen = by_stack = None
    if after.throttled_seconds is not None and before.throttled_seconds is not None:
        throttled = after.throttled_seconds - before.throttled_seconds
    if after.cores and before.cores:
        busy = after.cores.busy_seconds - before.cores.busy_seconds
        own = after.own_seconds - before.own_seconds
        siblings = max(0.0, after.sibling_seconds - before.sibling_seconds)
        others = max(0.0, busy - own - siblings)
        stolen = (after.cores.stolen_seconds - before.cores.stolen_seconds) / len(cores)
    wanted = max(seconds, running + waited)
    waiting = waited / wanted * seconds
    for_others = max(0.0, waited - (throttled or 0.0)) / wanted * seconds
    if others is not None:
        for_others = min(for_others, others / len(cores))
        used = max(0.0, after.stack_seconds - before.stack_seconds)
        by_stack = for_others * min(1.0, used / others) if others else 0.0
        for_others -= by_stack
        others = max(0.0, others - used)
    return Disturbance(
        seconds=seconds,
        cores=len(cores),
        waiting_seconds=for_others,
        own_waiting_seconds=waiting - for_others - (by_stack or 0.0),
        others_core_seconds=others,
        top=_by_name(before.others, after.others, cores),
        stolen_seconds=stolen,
        throttled_seconds=throttled,
        node_pressure_seconds=_less(after.node_pressure, before.node_pressure),
        pod_pressure_seconds=_less(after.pod_pressure, before.pod_pressure),
        major_faults=max(0, after.major_faults - before.major_faults),
        involuntary_switches=sum(thread.involuntary_switches for thread in threads),
        core_hertz=after.hertz,
        gpu_limited_seconds=dict.fromkeys(after.gpu_limits, seconds),
        stack_waiting_seconds=by_stack,
    )


def _increase(then: Thread | None, now: Thread) -> Thread:
    """Return what a thread did; ``then`` may be an earlier thread with the same number."""
    if then is None or now.running_seconds < then.running_seconds:
        return now
    return Thread(
        now.running_seconds - then.running_seconds,
        now.waiting_seconds - then.waiting_seconds,
        now.involuntary_switches - then.involuntary_switches,
    )


def add(total: Disturbance | None, more: Disturbance) -> Disturbance:
    """Return what happened in two intervals together."""
    if total is None:
        return more
    sums = {
        field.name: _plus(getattr(total, field.name), getattr(more, field.name))
        for field in fields(Disturbance)
    }
    hertz = None
    if total.core_hertz is not None and more.core_hertz is not None:
        hertz = total.core_hertz * total.seconds + more.core_hertz * more.seconds
        hertz /= total.seconds + more.seconds
    return Disturbance(**sums | {"cores": more.cores, "core_hertz": hertz})


def _plus(some: Any, more: Any) -> Any:
    """Add numbers, None if one is unknown; or numbers by name."""
    if isinstance(some, Mapping):
        return {name: some.get(name, 0.0) + more.get(name, 0.0) for name in {**some, **more}}
    return None if some is None or more is None else some + more


def _less(some: Mapping[str, float], less: Mapping[str, float]) -> dict[str, float]:
    return {name: value - less[name] for name, value in some.items() if name in less}


def _by_name(
    before: Mapping[int, Process], after: Mapping[int, Process], cores: Set[int]
) -> dict[str, float]:
    """Return the CPU time that processes used between two snapshots, by name.

    A process used the cores that it was on last, as far as is known.
    """
    used: dict[str, float] = {}
    for pid, now in after.items():
        if now.core not in cores:
            continue
        then = before.get(pid)
        since = then.seconds if then and then.began == now.began else 0.0
        if now.seconds > since:
            used[now.name] = used.get(now.name, 0.0) + now.seconds - since
    return used


def collect(total: Disturbance, rank: Mapping[str, str]) -> Iterator[Metric]:
    """Yield the series of what was measured, with a rank's labels; what is unknown has none."""
    hertz = GaugeMetricFamily(
        names.WORKER_CORE_HERTZ, "Mean frequency of its cores.", labels=tuple(rank)
    )
    if total.core_hertz is not None:
        hertz.add_metric(tuple(rank.values()), total.core_hertz)
        yield hertz
    for name, text, labels, values in _counters(total):
        family = CounterMetricFamily(name, text, labels=(*rank, *labels))
        for more, value in values.items():
            if value is not None:
                family.add_metric((*rank.values(), *more), value)
        if family.samples:
            yield family


_Values: TypeAlias = Mapping[tuple[str, ...], float | None]


def _counters(total: Disturbance) -> Iterator[tuple[str, str, tuple[str, ...], _Values]]:
    waiting: _Values = {
        ("others",): total.waiting_seconds,
        ("mlbench",): total.stack_waiting_seconds,
        ("own",): total.own_waiting_seconds,
    }
    of_both = {"node": total.node_pressure_seconds, "pod": total.pod_pressure_seconds}
    pressures: _Values = {
        (of, resource): seconds
        for of, values in of_both.items()
        for resource, seconds in values.items()
    }
    limited: _Values = {(reason,): seconds for reason, seconds in total.gpu_limited_seconds.items()}
    others, stolen = total.others_core_seconds, total.stolen_seconds
    text = "Time in which it waited for a core that others, MLBench or its own run had."
    yield names.WORKER_WAITING, text, ("cause",), waiting
    yield names.WORKER_OTHERS, "Time that others used its cores, summed.", (), {(): others}
    text = "Time in which the hypervisor had a core, the mean over its cores."
    yield names.WORKER_STOLEN, text, (), {(): stolen}
    text = "Time that its container's limit kept it from its cores, summed."
    yield names.WORKER_THROTTLED, text, (), {(): total.throttled_seconds}
    text = "Time in which some process waited for a resource."
    yield names.WORKER_PRESSURE, text, ("of", "resource"), pressures
    text = "Pages that it waited for a disk for."
    yield names.WORKER_MAJOR_FAULTS, text, (), {(): total.major_faults}
    text = "How often its threads lost their core to another thread."
    yield names.WORKER_SWITCHES, text, (), {(): total.involuntary_switches}
    text = "Time in which something kept a GPU's clock down."
    yield names.WORKER_GPU_LIMITED, text, ("reason",), limited
