"""A benchmark: its module, options, and rules of the closed division."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import get_args

from mlbench.benchmarks.options import Options, permitted
from mlbench.benchmarks.task_options import Backend, TrainingOptions
from mlbench.contract.fields import describe
from mlbench.contract.records import Target
from mlbench.contract.reported_settings import Setting

Rules = Mapping[str, tuple[Setting, ...]]


@dataclass(frozen=True)
class Benchmark:
    """A benchmark: a Python module that every worker can run, with its options and rules."""

    name: str
    module: str
    options: type[Options]
    description: str
    args: Mapping[str, str] = field(default_factory=dict)
    """Arguments that select the benchmark if its module has several."""
    least_workers: int = 1
    """Minimum number of workers."""
    facts: Rules = field(default_factory=dict)
    """Other settings that the closed division requires, such as the data's digest."""

    @property
    def rules(self) -> Rules:
        """Values that a setting may have in the closed division, by setting; the default first."""
        return self._rules({})

    def _rules(self, settings: Mapping[str, Setting]) -> Rules:
        """Return the rules, with the defaults that the settings imply."""
        implied = self.options.implied(settings)
        rules = {
            name: (implied.get(name, option.default), *values[1:])
            for name, option in describe(self.options).items()
            if (values := permitted(option))
        }
        return {**rules, **{name: (value,) for name, value in self.args.items()}, **self.facts}

    def broken_rules(self, settings: Mapping[str, Setting]) -> Rules:
        """Return the rules that a run with these settings violates; a missing setting does too."""
        rules = self._rules(settings).items()
        return {name: allowed for name, allowed in rules if settings.get(name) not in allowed}

    @property
    def target(self) -> Target | None:
        """Default target; None for a benchmark without a target."""
        return self._target(0)

    @property
    def light_target(self) -> Target | None:
        """Target of a run with ``light_target``; None for a benchmark without a light target."""
        return self._target(1)

    @property
    def light_args(self) -> Mapping[str, str]:
        """Arguments that select the light target; empty for a benchmark without one."""
        return {"goal": f"{self.light_target.value:g}"} if self.light_target else {}

    def _target(self, position: int) -> Target | None:
        """Return the target at a position among the allowed ones; None beyond the last one."""
        values = self.rules.get("goal", ())[position : position + 1]
        if not values or not isinstance(values[0], float):
            return None
        assert issubclass(self.options, TrainingOptions)
        return Target(self.options.goal_metric, values[0], self.options.lower_is_better)

    @property
    def seeded(self) -> bool:
        """Whether the benchmark has a seed."""
        return hasattr(self.options, "seed")

    @property
    def on_gpu(self) -> bool:
        """Whether the benchmark can run on a GPU."""
        return hasattr(self.options, "device")

    @property
    def backends(self) -> tuple[str, ...]:
        """Possible communication backends; empty for a benchmark that does not communicate."""
        if not hasattr(self.options, "backend"):
            return ()
        # nccl supports only tensors on GPUs.
        return tuple(name for name in get_args(Backend) if name != "nccl" or self.on_gpu)

    def backends_among(self, available: Collection[str]) -> tuple[str, ...]:
        """Return the benchmark's backends that are among the available ones."""
        return tuple(name for name in self.backends if name in available)
