"""Measures the time for which a rank is kept from its cores, by a thread that samples the kernel.

A thread waits if it could run while another thread has the core. The rank's waiting time is
computed from all its threads over an interval. They demanded cores for the time in which they ran
or waited. The waiting share of that time counts, or of the interval if the interval is longer. So a
sleeping rank does not wait, and the number of threads does not matter if all wait equally.

Waiting for other programs is limited to the share of the cores' time that others used. MLBench's
own processes on this machine are accounted for separately. The rest is waiting for each other, for
other ranks of the run, or because of the container's limit. The run itself causes it, so it is not
interference.
"""

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import closing
from dataclasses import fields, replace
from typing import Any, TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from mlbench.contract import names
from mlbench.contract.records import Interference
from mlbench_worker.agent.halts import LOOK_SECONDS, Halts
from mlbench_worker.agent.kernel import Kernel, KernelThread, Snapshot

log = logging.getLogger(__name__)

_MIN_SECONDS = 1.0
"""Length of the first intervals; later ones are longer."""
_PAUSE_BY_COST = 200
"""Minimum ratio of an interval to the CPU time to measure it: at most 0.5 % of a core."""


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
            open_kernel: opens the kernel's counters of the rank.
            has_recorded: returns whether the process has recorded a line.
            is_stopped_by_fault: returns whether an injected fault stops the processes now.
            name_others: whether to record the names of programs that use the rank's cores.
        """
        super().__init__(name="watch", daemon=True)
        self._open_kernel = open_kernel
        self._has_recorded = has_recorded
        self._is_stopped_by_fault = is_stopped_by_fault
        self._name_others = name_others
        self._over = threading.Event()
        self._halts = Halts()
        self._training: Interference | None = None
        self.total: Interference | None = None
        """The interference since the process began; None before the first measurement."""

    def run(self) -> None:
        """Measure interval after interval."""
        try:
            kernel = self._open_kernel()
            with closing(kernel.gpus):
                self._measure(kernel)
        except Exception:
            # The machine can train even if it cannot be measured.
            log.exception("CPU contention is no longer measured")

    def _measure(self, kernel: Kernel) -> None:
        began = time.monotonic()
        before, trains, pause = kernel.read(), False, _MIN_SECONDS
        while True:
            # Check during the pause whether processes are stopped.
            processes = {pid for pid, _ in before.threads}
            until = time.monotonic() + pause
            while (remaining := until - time.monotonic()) > 0:
                if self._over.wait(min(remaining, LOOK_SECONDS)):
                    return
                self._halts.look(set() if self._is_stopped_by_fault() else processes)
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
            usual = min((after.at - began) * 0.1, 5.0)
            pause = max(usual, _MIN_SECONDS, cost * _PAUSE_BY_COST)

    def end(self) -> Interference | None:
        """End, and return the interference of the training; None if it was too short to measure."""
        self._over.set()
        self.join()
        total = self._training or self.total
        if total is None:
            return None
        top = sorted(total.top.items(), key=lambda item: -item[1])[:5]
        return replace(total, top=dict(top), stopped=self._halts.spans())


def measure(before: Snapshot, after: Snapshot, cores: Set[int]) -> Interference:
    """Return the interference between two snapshots of a rank that may run on some cores."""
    seconds = after.at - before.at
    switches = 0
    demands: defaultdict[int, float] = defaultdict(float)
    waits: defaultdict[int, float] = defaultdict(float)
    for key, now in after.threads.items():
        then = before.threads.get(key)
        if then is None or now.running_seconds < then.running_seconds:
            then = KernelThread()  # a new thread, perhaps with the number of an ended one
        running = now.running_seconds - then.running_seconds
        waiting = now.waiting_seconds - then.waiting_seconds
        switches += now.involuntary_switches - then.involuntary_switches
        demands[key[0]] += running + waiting
        waits[key[0]] += waiting
    waited = sum(waits.values())
    throttled = others = stolen = by_stack = None
    if after.throttled_seconds is not None and before.throttled_seconds is not None:
        throttled = after.throttled_seconds - before.throttled_seconds
    if after.cores and before.cores:
        busy = after.cores.busy_seconds - before.cores.busy_seconds
        own = after.own_seconds - before.own_seconds
        siblings = max(0.0, after.sibling_seconds - before.sibling_seconds)
        others = max(0.0, busy - own - siblings)
        stolen = (after.cores.stolen_seconds - before.cores.stolen_seconds) / len(cores)
    top: dict[str, float] = {}
    for pid, process in after.others.items():
        earlier = before.others.get(pid)
        since = earlier.seconds if earlier and earlier.began == process.began else 0.0
        if process.core in cores and process.seconds > since:
            top[process.name] = top.get(process.name, 0.0) + process.seconds - since
    # The mean over processes, by their demand: two of torchrun's that sleep at times would count
    # twice in a sum, and an idle launcher would halve an equal mean.
    total = sum(demands.values())
    shares = (demand * waits[pid] / max(seconds, demand) for pid, demand in demands.items())
    share = sum(shares) / total if total else 0.0
    demand = waited / share if share else seconds
    waiting = waited / demand * seconds
    for_others = max(0.0, waited - (throttled or 0.0)) / demand * seconds
    if others is not None:
        for_others = min(for_others, others / len(cores))
        used = max(0.0, after.stack_seconds - before.stack_seconds)
        by_stack = for_others * min(1.0, used / others) if others else 0.0
        for_others -= by_stack
        others = max(0.0, others - used)
    return Interference(
        seconds=seconds,
        cores=len(cores),
        waiting_seconds=for_others,
        self_contention_seconds=waiting - for_others - (by_stack or 0.0),
        others_core_seconds=others,
        top=top,
        stolen_seconds=stolen,
        throttled_seconds=throttled,
        node_pressure_seconds=_less(after.node_pressure, before.node_pressure),
        pod_pressure_seconds=_less(after.pod_pressure, before.pod_pressure),
        major_faults=max(0, after.major_faults - before.major_faults),
        involuntary_switches=switches,
        core_hertz=after.hertz,
        gpu_limited_seconds=dict.fromkeys(after.gpu_limits, seconds),
        stack_waiting_seconds=by_stack,
        ready_thread_seconds=max(demands.values(), default=0.0),
    )


def add(total: Interference | None, more: Interference) -> Interference:
    """Return the sum of the interferences of two intervals."""
    if total is None:
        return more
    sums: dict[str, Any] = {}
    for field in fields(Interference):
        a, b = getattr(total, field.name), getattr(more, field.name)
        if isinstance(a, Mapping):
            sums[field.name] = {name: a.get(name, 0.0) + b.get(name, 0.0) for name in {**a, **b}}
        else:
            sums[field.name] = None if a is None or b is None else a + b
    hertz = None
    if total.core_hertz is not None and more.core_hertz is not None:
        hertz = total.core_hertz * total.seconds + more.core_hertz * more.seconds
        hertz /= total.seconds + more.seconds
    return Interference(**sums | {"cores": more.cores, "core_hertz": hertz})


def _less(some: Mapping[str, float], less: Mapping[str, float]) -> dict[str, float]:
    return {name: value - less[name] for name, value in some.items() if name in less}


def collect(total: Interference, rank: Mapping[str, str]) -> Iterator[Metric]:
    """Yield the series of interference with the labels of a rank, without unknown values."""
    hertz = GaugeMetricFamily(
        names.WORKER_CORE_HERTZ, "Mean frequency of its cores.", labels=tuple(rank)
    )
    if total.core_hertz is not None:
        hertz.add_metric(tuple(rank.values()), total.core_hertz)
        yield hertz
    for name, text, labels, values in _counters(total):
        family = CounterMetricFamily(name, text, labels=(*rank, *labels))
        for label_values, value in values.items():
            if value is not None:
                family.add_metric((*rank.values(), *label_values), value)
        if family.samples:
            yield family


_Values: TypeAlias = Mapping[tuple[str, ...], float | None]


def _counters(total: Interference) -> Iterator[tuple[str, str, tuple[str, ...], _Values]]:
    waiting: _Values = {
        ("others",): total.waiting_seconds,
        ("mlbench",): total.stack_waiting_seconds,
        ("own",): total.self_contention_seconds,
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
    yield names.WORKER_CONTENTION, text, ("cause",), waiting
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
