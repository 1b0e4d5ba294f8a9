"""The options of a run: name, type, bounds, unit and description of each, in one place.

Request validation, records, pools, the command line, sweeps, comparisons and the form on the web
page are derived from these classes. Agents import this module too, so it uses only the standard
library.
"""

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Annotated, Any, TypedDict, TypeVar, get_args, get_type_hints

S = TypeVar("S")

# For each bound: its keyword in JSON schemas, its words in messages, and the test for a violation.
_BOUNDS = {
    "least": ("minimum", "at least", operator.lt),
    "above": ("exclusiveMinimum", "more than", operator.le),
    "most": ("maximum", "at most", operator.gt),
    "below": ("exclusiveMaximum", "less than", operator.ge),
}


@dataclass(frozen=True)
class Option:
    """Metadata of an option: everything except its name, type and default."""

    help: str
    """Description, without a full stop and without the unit."""
    example: str = ""
    """Example of a value on the command line, with its unit."""
    label: str = ""
    """Label in the form on the web page; empty if the form does not have the option."""
    flag: str = ""
    """Flag of the command line, such as ``--loss``; empty if it does not have the option."""
    unit: str = ""
    """Unit of the number; empty if it has no unit."""
    least: float | None = None
    """Minimum; None without one."""
    above: float | None = None
    """Exclusive minimum; None without one."""
    most: float | None = None
    """Maximum; None without one."""
    below: float | None = None
    """Exclusive maximum; None without one."""
    sweep: str = ""
    """Key in sweeps; empty if the option cannot be swept."""
    swept_out: str = ""
    """Value in sweeps that stands for an option that is not set; empty if there is none."""
    effect: str = ""
    """Effect on packets, as a word after the unit, such as ``late``."""
    unasked: str = "none"
    """Word that tables show for an option that is not set."""
    kind: type = str
    """Type of the values, which ``options_of`` fills in."""

    @property
    def sentence(self) -> str:
        """Description with the unit."""
        return f"{self.help}{f', in {self.unit}' if self.unit else ''}."

    @property
    def sentence_with_example(self) -> str:
        """Description with an example, for the command line, which accepts several units."""
        return f"{self.help}{f', e.g. {self.example}' if self.example else ''}."

    @property
    def unit_in_words(self) -> str:
        """Unit and effect, such as ``ms late``."""
        return f"{self.unit} {self.effect}".strip()

    @property
    def parameter(self) -> str:
        """Name of the command's parameter."""
        return self.flag.removeprefix("--")

    @property
    def is_number(self) -> bool:
        """Whether the values are numbers."""
        return self.kind in (int, float)

    @property
    def is_whole(self) -> bool:
        """Whether the values are integers."""
        return self.kind is int

    @property
    def is_switch(self) -> bool:
        """Whether the values are booleans."""
        return self.kind is bool

    @property
    def bounds(self) -> Mapping[str, float]:
        """Bounds that are not None, by name."""
        bounds = {name: getattr(self, name) for name in _BOUNDS}
        return {name: bound for name, bound in bounds.items() if bound is not None}

    def problem(self, value: float) -> str:
        """Return the bound that a number violates, such as ``at least 1``; otherwise empty."""
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
class NetworkOptions:
    """The options that slow down the network of each worker; None leaves the network as it is."""

    max_bandwidth: Annotated[
        float | None,
        Option(
            "Maximum outgoing bandwidth of each worker; bursts of 3 kB pass",
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
            "Latency added to the outgoing packets of each worker",
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
            "Packet loss of the outgoing traffic of each worker",
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
class Resources(NetworkOptions):
    """The resources of each worker; None leaves the choice to the pool."""

    num_cpus: Annotated[
        float | None,
        Option(
            "Cores of each worker, by default an equal share; fractions only on a cluster",
            example="2",
            label="CPUs per worker",
            flag="--cpus",
            above=0,
            sweep="cpus",
            unasked="any",
        ),
    ] = None
    gpu_enabled: Annotated[
        bool, Option("Train on GPUs; your own code receives --gpu", label="GPU", flag="--gpu")
    ] = False


@dataclass(frozen=True, kw_only=True)
class WorkerSpec(Resources):
    """The requirements of a run on each worker."""

    image: Annotated[str, Option("Container image of the run; empty for the pool's own image")] = ""


@dataclass(frozen=True, kw_only=True)
class CommonSpec(Resources):
    """The options that all runs of a benchmark set share."""

    benchmark: Annotated[str | None, Option("Name of the benchmark")] = None
    args: Annotated[
        Mapping[str, str], Option('Options of the benchmark, such as `{"epochs": "3"}`')
    ] = field(default_factory=dict)
    working_dir: Annotated[
        str | None,
        Option("Folder on the workers that the command starts in; by default the worker's own"),
    ] = None
    backend: Annotated[
        str | None,
        Option("Communication backend", label="Backend", flag="--backend", example="gloo"),
    ] = None
    run_all_nodes: Annotated[
        bool, Option("Whether all ranks run the command, or rank 0 alone; for custom backends")
    ] = False
    light_target: Annotated[
        bool,
        Option(
            "Use the easier target; your own code receives --light",
            label="Light target",
            flag="--light",
        ),
    ] = False
    deadline_seconds: Annotated[
        float | None,
        Option(
            "Maximum time from the start of the run to the end of training",
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
            "Maximum number of restarts after failures",
            label="Restarts",
            flag="--restarts",
            least=0,
            most=100,
        ),
    ] = 0
    faults: Annotated[
        str | None,
        Option(
            "Faults to inject, at times that follow from the seed; allows up to 100 restarts",
            example="kill:every=15s",
            flag="--faults",
            sweep="faults",
            swept_out="none",
        ),
    ] = None


Workers = Annotated[
    int, Option("Number of workers, one rank each", label="Workers", flag="--workers", least=1)
]


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """The options in which the runs of a benchmark set differ, apart from swept options."""

    num_workers: Workers
    seed: Annotated[
        int | None,
        Option(
            "Random seed; your own code finds it in $MLBENCH_SEED",
            label="Seed",
            flag="--seed",
            least=0,
            most=2**32 - 1,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class RunSpec(CommonSpec, Repeat):
    """All options of a run."""

    num_workers: Workers = 2


class RunOptions(TypedDict, total=False):
    """Keyword arguments of the client for options that the original MLBench's client lacks.

    Type checkers cannot derive them from a dataclass, so a test compares them with ``RunSpec``.
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
    """Whether to wait while another run is active; otherwise the master responds with 409."""


def options_of(spec: type) -> Mapping[str, Option]:
    """Return the options of a class, by field name. Fields without an ``Option`` are left out."""
    return _options_of(spec)


@cache
def _options_of(spec: Any) -> Mapping[str, Option]:
    options = {}
    for name, hint in get_type_hints(spec, include_extras=True).items():
        for annotation in getattr(hint, "__metadata__", ()):
            if isinstance(annotation, Option):
                # The first member of a union: float for `float | None`.
                kind, *_ = get_args(hint.__origin__) or (hint.__origin__,)
                options[name] = replace(annotation, kind=kind)
    return options


IMPAIRMENTS = tuple(name for name in options_of(NetworkOptions) if name != "max_bandwidth")
"""Names of the options that need netem, which not every kernel has."""

NETWORK_UNITS = {option.sweep: option.unit for option in options_of(NetworkOptions).values()}
"""Units of the network options, by their key in sweeps."""

SWEPT: Mapping[str, tuple[str, Option]] = {
    option.sweep: (name, option) for name, option in options_of(RunSpec).items() if option.sweep
}
"""Options that any run can sweep: field name and option, by their key in sweeps."""


def part(spec: type[S], whole: object) -> S:
    """Return the options of class ``spec`` with the values that ``whole`` has for them."""
    names = (field.name for field in fields(spec))  # type: ignore[arg-type]
    return spec(**{name: getattr(whole, name) for name in names})
