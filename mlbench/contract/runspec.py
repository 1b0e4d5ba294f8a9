"""What a run may be ordered with: name, type, bounds, unit and sentence of each option, once.

Requests and their errors, records, what a pool gives, the command line, sweeps, comparisons and the
form of the page derive theirs from these classes. Standard library only: agents use it too.
"""

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Annotated, Any, TypedDict, TypeVar, get_args, get_type_hints

S = TypeVar("S")

# Of each bound: its name in schemas, in words, and what holds of a number out of it.
_BOUNDS = {
    "least": ("minimum", "at least", operator.lt),
    "above": ("exclusiveMinimum", "more than", operator.le),
    "most": ("maximum", "at most", operator.gt),
    "below": ("exclusiveMaximum", "less than", operator.ge),
}


@dataclass(frozen=True)
class Option:
    """What is to be said of an option beside its name, type and default."""

    help: str
    """A sentence, without its full stop and its unit."""
    example: str = ""
    """A value of the command line, with its unit."""
    label: str = ""
    """The same in a word or two, for a form; empty: it is in none."""
    flag: str = ""
    """Of the command line."""
    unit: str = ""
    """Of its number."""
    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None
    sweep: str = ""
    """Its key in sweeps; empty: it cannot be swept."""
    swept_out: str = ""
    """The value in sweeps that leaves it out; empty: none does."""
    effect: str = ""
    """What it does to packets, in a word after its unit."""
    unasked: str = "none"
    """How it is shown that it was not given."""
    kind: type = str
    """The type of its values; ``options_of`` fills it in."""

    @property
    def sentence(self) -> str:
        """What it is, and in which unit."""
        return f"{self.help}{f', in {self.unit}' if self.unit else ''}."

    @property
    def sentence_with_example(self) -> str:
        """The same for the command line, which takes several units."""
        return f"{self.help}{f', e.g. {self.example}' if self.example else ''}."

    @property
    def unit_in_words(self) -> str:
        """The unit and the effect, such as ``ms late``."""
        return f"{self.unit} {self.effect}".strip()

    @property
    def parameter(self) -> str:
        """The name of the command's parameter."""
        return self.flag.removeprefix("--")

    @property
    def is_number(self) -> bool:
        """Whether its values are numbers."""
        return self.kind in (int, float)

    @property
    def is_whole(self) -> bool:
        """Whether they are whole numbers."""
        return self.kind is int

    @property
    def is_switch(self) -> bool:
        """Whether it is on or off."""
        return self.kind is bool

    @property
    def bounds(self) -> Mapping[str, float]:
        """The bounds that it has, by name."""
        bounds = {name: getattr(self, name) for name in _BOUNDS}
        return {name: bound for name, bound in bounds.items() if bound is not None}

    def problem(self, value: float) -> str:
        """Return what would be right, if a number is out of bounds; else an empty text."""
        for name, bound in self.bounds.items():
            _, words, is_out = _BOUNDS[name]
            if is_out(value, bound):
                return f"{words} {bound:.15g}"
        return ""

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        """Describe the option in the OpenAPI document."""
        bounds = {_BOUNDS[name][0]: bound for name, bound in self.bounds.items()}
        return {**handler(schema), **bounds, "description": self.sentence}


@dataclass(frozen=True)
class Network:
    """How all that a worker sends is held back; None is as the network has it."""

    max_bandwidth: Annotated[
        float | None,
        Option(
            "What each worker may send, but for two packets (3 kB) that pass at once",
            example="20Mbit",
            label="Bandwidth (Mbit/s)",
            flag="--bandwidth",
            unit="Mbit/s",
            above=0,
            sweep="bandwidth",
            swept_out="none",
            unasked="any",
        ),
    ] = None
    latency_ms: Annotated[
        float | None,
        Option(
            "Extra latency of what each worker sends",
            example="5ms",
            label="Latency (ms)",
            flag="--latency",
            unit="ms",
            above=0,
            most=10_000,
            effect="late",
            sweep="latency",
            swept_out="0",
        ),
    ] = None
    loss_percent: Annotated[
        float | None,
        Option(
            "Packet loss of what each worker sends",
            example="1%",
            label="Loss (%)",
            flag="--loss",
            unit="%",
            above=0,
            below=100,
            effect="lost",
            sweep="loss",
            swept_out="0",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Resources(Network):
    """What each worker has; None is what the pool gives without being asked."""

    num_cpus: Annotated[
        float | None,
        Option(
            "Cores of each worker, in a cluster also fractions; by default its share",
            example="2",
            label="CPUs per worker",
            flag="--cpus",
            above=0,
            sweep="cpus",
            unasked="any",
        ),
    ] = None
    gpu_enabled: Annotated[
        bool, Option("Train on GPUs; own code gets it as --gpu", label="GPU", flag="--gpu")
    ] = False


@dataclass(frozen=True, kw_only=True)
class WorkerSpec(Resources):
    """What a run asks of each worker."""

    image: Annotated[
        str, Option("The image that has the run's command; empty for the pool's own")
    ] = ""


@dataclass(frozen=True, kw_only=True)
class CommonSpec(Resources):
    """What to run and how: what all runs of a set share."""

    benchmark: Annotated[str | None, Option("An official task")] = None
    args: Annotated[
        Mapping[str, str], Option('Options of the official task, such as `{"epochs": "3"}`')
    ] = field(default_factory=dict)
    working_dir: Annotated[
        str | None,
        Option("The folder, on the workers, that the command starts in; by default their own"),
    ] = None
    backend: Annotated[
        str | None,
        Option(
            "What the workers communicate with", label="Backend", flag="--backend", example="gloo"
        ),
    ] = None
    run_all_nodes: Annotated[
        bool, Option("With a custom backend: whether all ranks run the command, or rank 0 alone")
    ] = False
    light_target: Annotated[
        bool,
        Option(
            "Aim for the easier goal; own code gets it as --light",
            label="Light target",
            flag="--light",
        ),
    ] = False
    deadline_seconds: Annotated[
        float | None,
        Option(
            "End training this long after the start of the run",
            label="Deadline (seconds)",
            example="90s, 15m or 2h",
            flag="--deadline",
            unit="s",
            above=0,
        ),
    ] = None
    max_restarts: Annotated[
        int,
        Option(
            "How often to start again after a failure",
            label="Restarts",
            flag="--restarts",
            least=0,
            most=100,
        ),
    ] = 0
    faults: Annotated[
        str | None,
        Option(
            "Failures to inject, at times drawn from the seed; it then restarts up to 100 times",
            example="kill:every=15s",
            flag="--faults",
            sweep="faults",
            swept_out="none",
        ),
    ] = None


Workers = Annotated[
    int, Option("Worker pods, one rank each", label="Workers", flag="--workers", least=1)
]


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """What the runs of a set differ in, beside what it sweeps."""

    num_workers: Workers
    seed: Annotated[
        int | None,
        Option(
            "Seed of what is random; own code finds it as $MLBENCH_SEED",
            label="Seed",
            flag="--seed",
            least=0,
            most=2**32 - 1,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class RunSpec(CommonSpec, Repeat):
    """What a run may be ordered with."""

    num_workers: Workers = 2


class RunOptions(TypedDict, total=False):
    """The options that MLBench's original client lacks, as keyword arguments of ours.

    Type checkers cannot make these of a dataclass; a test holds them against ``RunSpec``.
    """

    benchmark: str | None
    args: Mapping[str, str] | None
    seed: int | None
    working_dir: str | None
    deadline_seconds: float | None
    max_restarts: int
    faults: str | None
    latency_ms: float | None
    loss_percent: float | None
    queue: bool
    """Wait while another run is active; otherwise that is a refusal (409)."""


def options_of(spec: type) -> Mapping[str, Option]:
    """Return what is said of the fields of a class, by name; nothing of those without an Option."""
    return _options_of(spec)


@cache
def _options_of(spec: Any) -> Mapping[str, Option]:
    described = {}
    for name, hint in get_type_hints(spec, include_extras=True).items():
        for note in getattr(hint, "__metadata__", ()):
            if isinstance(note, Option):
                kind, *_ = get_args(hint.__origin__) or (hint.__origin__,)  # of float | None, float
                described[name] = replace(note, kind=kind)
    return described


IMPAIRMENTS = tuple(name for name in options_of(Network) if name != "max_bandwidth")
"""What is done to packets by netem, which not every kernel has."""

NETWORK_UNITS = {option.sweep: option.unit for option in options_of(Network).values()}
"""The units of what is swept of a network, by key."""

SWEPT: Mapping[str, tuple[str, Option]] = {
    option.sweep: (name, option) for name, option in options_of(RunSpec).items() if option.sweep
}
"""What any run can be swept by: field and option by key."""


def part(spec: type[S], whole: object) -> S:
    """Return the part of a record or a row that a class of options describes."""
    names = (one.name for one in fields(spec))  # type: ignore[arg-type]
    return spec(**{name: getattr(whole, name) for name in names})
