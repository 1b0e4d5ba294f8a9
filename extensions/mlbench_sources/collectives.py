"""Steps, communication and data loading of PyTorch code that does not time them itself.

The agent's ``sitecustomize`` calls ``watch`` in each process that joins a process group. The code
and its results do not change:

- A process waits for a collective in ``Work.wait``, which is timed.
- DistributedDataParallel waits at the end of the backward pass. The autograd engine calls back when
  it has computed all gradients, and again when DistributedDataParallel has exchanged them. The time
  between is the communication that no computation hides.
- A step ends with ``step`` of the first optimizer, unless the code has a ``Tracker`` that counts
  steps.

These are times of the host, which queues the work of a GPU and does not wait for it. Therefore
communication on GPUs is not timed. Neither is communication of a DTensor, which waits inside
PyTorch.
"""

import os
import sys
import weakref
from collections.abc import Callable, Mapping
from functools import wraps
from itertools import chain
from time import perf_counter
from typing import Any, SupportsFloat

from mlbench.contract import names
from mlbench.contract.names import Phase
from mlbench.tracking.recorder import Value
from mlbench.tracking.tracker import Tracker

# After this many steps it is clear whether the code counts them, and whether it communicates.
_FIRST_STEPS = 10


class _CountingTracker(Tracker):
    """The tracker of code that counts no steps.

    After a restart, the code may have resumed from a checkpoint, and does not report from which
    step. So the numbers of its steps are not recorded: they would count from 1.
    """

    def __init__(self, steps: int, seconds: float, phases: Mapping[Phase, float]) -> None:
        """Continue after the first steps, with their number, their time and the time per phase."""
        super().__init__()
        # Phases that the code's own tracker is in are not phases of this one.
        self._mark = bytearray(1)
        self.steps = steps
        self._started -= seconds
        self._last_step = seconds
        for phase, spent in phases.items():
            self.count(phase, spent)
        self._last_communication = phases.get("communication", 0.0)
        restarts = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
        self._is_restarted = int(os.environ.get(names.ENV_ATTEMPT, "1")) > 1 or restarts > 0
        if steps == 1:
            # The mean time per step leaves this step out, because the clock has just begun.
            self.log({names.TRAIN_SECONDS: 0.0}, step=steps)

    def log(
        self,
        metrics: Mapping[str, Value] | None = None,
        /,
        *,
        step: SupportsFloat | None = None,
        **more: Value,
    ) -> None:
        super().log(metrics, step=None if self._is_restarted else step, **more)


class _Watch:
    """The watched training of this process."""

    def __init__(self, torch: Any, note_untimed: Callable[[str], None]) -> None:
        self._queue = torch.autograd.Variable._execution_engine.queue_callback
        self._is_training = torch.is_grad_enabled
        self._note_untimed = note_untimed
        self._tracker: Tracker | None = None
        self._own: _CountingTracker | None = None
        self._optimizer: Callable[[], Any] = lambda: None
        self._size = torch.distributed.get_world_size()
        self._steps = 0
        self._is_over = False
        self._is_on_host = True
        self._is_exchanging = False
        self._first_step_at = 0.0

    def timed(self, function: Callable[..., Any], phase: Phase) -> Callable[..., Any]:
        """Return a function whose duration counts as a phase."""

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            begin = perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self._count(phase, perf_counter() - begin)

        return call

    def exchanging(self, init: Callable[..., None]) -> Callable[..., None]:
        """Return an ``__init__`` of DistributedDataParallel whose exchange is timed."""

        # The engine calls back in this order: computed, DistributedDataParallel, exchanged.
        def begin(_: object) -> None:
            if not self._is_exchanging:
                self._is_exchanging = True
                self._queue(note_computed)

        def note_computed() -> None:
            computed_at = perf_counter()

            def end() -> None:
                self._is_exchanging = False
                self._count("communication", perf_counter() - computed_at)

            self._queue(end)

        @wraps(init)
        def init_timed(ddp: Any, *args: Any, **kwargs: Any) -> None:
            init(ddp, *args, **kwargs)
            trained = [p for p in ddp.module.parameters() if p.requires_grad]
            # The first and the last parameter, because a backward pass may skip one of them.
            for parameter in {id(p): p for p in (trained[0], trained[-1])}.values():
                parameter.register_post_accumulate_grad_hook(begin)

        return init_timed

    def _count(self, phase: Phase, seconds: float) -> None:
        # Data loading counts only during training, when gradients are enabled.
        is_counted = self._is_on_host if phase == "communication" else self._is_training()
        if self._tracker is not None and is_counted:
            self._tracker.count(phase, seconds)

    def end_step(self, optimizer: Any, *unused: object) -> None:
        """Count a step if it is one of the first optimizer, and the code has no tracker."""
        first = self._optimizer()
        if self._is_over or not (first is None or first is optimizer):
            return
        try:
            self._is_exchanging = False  # true if an exception has interrupted the backward pass
            if first is None:
                self._optimizer = weakref.ref(optimizer)
                self._first_step_at = perf_counter()
                parameters = chain.from_iterable(g["params"] for g in optimizer.param_groups)
                if self._is_on_host and any(p.device.type != "cpu" for p in parameters):
                    self._is_on_host = False
                    self._note_untimed("untimed_gpu_ranks")
            self._steps += 1
            # The code's own tracker counts the steps, unless it has only logged values so far.
            tracker = next((t for t in Tracker.active if t is not self._own), None)
            if tracker is not None and (tracker.steps or self._steps < _FIRST_STEPS):
                if self._own is not None:
                    self._own.close()
                    self._own = None
                self._tracker = tracker
            elif self._own is None:
                phases = {} if tracker is None else tracker.phase_seconds()
                phases = {phase: phases.get(phase, 0.0) for phase in ("communication", "data")}
                seconds = perf_counter() - self._first_step_at
                self._own = self._tracker = _CountingTracker(self._steps, seconds, phases)
                if tracker is not None:
                    for phase, spent in phases.items():
                        tracker.count(phase, -spent)
            else:
                self._own.step(samples=0)
            # These ranks must communicate in a way that cannot be timed.
            if self._steps == _FIRST_STEPS and self._size > 1 and self._is_on_host:
                assert self._tracker is not None
                if "communication" not in self._tracker.phase_seconds():
                    self._note_untimed("untimed_other_ranks")
        except Exception as error:  # the training must continue in any case
            self._is_over, self._tracker = True, None
            print(f"mlbench: steps are no longer recorded: {error}", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Record the totals: processes of ``multiprocessing`` do not call exit handlers."""
        self._is_over = True
        if self._own is not None:
            self._own.close()


def watch(note_untimed: Callable[[str], None]) -> Callable[[], None]:
    """Watch the training of this process; return a function that records its end.

    ``note_untimed`` records a field of ``records.NotRecorded`` for parts that cannot be timed.
    """
    torch = sys.modules["torch"]
    watched = _Watch(torch, note_untimed)
    distributed, loader = torch.distributed, torch.utils.data.dataloader._BaseDataLoaderIter
    distributed.Work.wait = watched.timed(distributed.Work.wait, "communication")
    broadcast = watched.timed(distributed._broadcast_coalesced, "communication")
    distributed._broadcast_coalesced = broadcast  # buffers, before the forward pass
    ddp = torch.nn.parallel.DistributedDataParallel
    ddp.__init__ = watched.exchanging(ddp.__init__)
    loader.__next__ = watched.timed(loader.__next__, "data")
    optimizers = sys.modules["torch.optim.optimizer"]
    optimizers.register_optimizer_step_post_hook(watched.end_step)
    return watched.end
