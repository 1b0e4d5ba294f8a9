"""The options of a run: name, type, bounds, unit and description of each, in one place.

Request validation, records, pools, the command line, sweeps, comparisons and the form on the web
page are derived from these classes. Agents import this module too, so it uses only the standard
library.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, TypedDict, TypeVar

from mlbench.contract.fields import Before, Field, describe

S = TypeVar("S")


@dataclass(frozen=True)
class Option(Field):
    """The description of an option of runs, with how commands, pages and sweeps name it."""

    label: str = ""
    """Label in the form on the web page; empty if the form does not have the option."""
    flag: str = ""
    """Flag of the command line, such as ``--loss``; empty if it does not have the option."""
    sweep: str = ""
    """Key in sweeps; empty if the option cannot be swept."""
    swept_out: str = ""
    """Value in sweeps that stands for an option that is not set; empty if there is none."""
    effect: str = ""
    """Effect on packets, as a word after the unit, such as ``late``."""
    unasked: str = "none"
    """Word that tables show for an option that is not set."""

    @property
    def sentence_with_example(self) -> str:
        """Description with an example, for the command line, which accepts several units."""
        return f"{self.description[:-1]}{f', e.g. {self.example}' if self.example else ''}."

    @property
    def unit_in_words(self) -> str:
        """Unit and effect, such as ``ms late``."""
        return f"{self.unit} {self.effect}".strip()

    @property
    def parameter(self) -> str:
        """Name of the command's parameter."""
        return self.flag.removeprefix("--")


@dataclass(frozen=True)
class NetworkOptions:
    """The options that slow down the network of each worker; None leaves the network as it is."""

    max_bandwidth: Annotated[
        float | None,
        Option(
            example="20Mbit",
            label="Bandwidth (Mbit/s)",
            flag="--bandwidth",
            unit="Mbit/s",
            gt=0,
            sweep="bandwidth",
            swept_out="none",
            unasked="any",
        ),
    ] = None
    """Maximum outgoing bandwidth of each worker; bursts of 3 kB pass."""
    latency_ms: Annotated[
        float | None,
        Option(
            example="5ms",
            label="Latency (ms)",
            flag="--latency",
            unit="ms",
            gt=0,
            le=10_000,
            effect="late",
            sweep="latency",
            swept_out="0",
        ),
    ] = None
    """Latency added to the outgoing packets of each worker."""
    loss_percent: Annotated[
        float | None,
        Option(
            example="1%",
            label="Loss (%)",
            flag="--loss",
            unit="%",
            gt=0,
            lt=100,
            effect="lost",
            sweep="loss",
            swept_out="0",
        ),
    ] = None
    """Packet loss of the outgoing traffic of each worker."""


def read_cores(value: Any) -> Any:
    """Return cores as a number for Kubernetes' notation, such as 2000m for 2 cores."""
    millicores = re.fullmatch(r"([0-9]{1,9})m", value) if isinstance(value, str) else None
    return int(millicores[1]) / 1000 if millicores else value


Cores = Annotated[
    float | None,
    Before(read_cores),
    Option(example="2", label="CPUs per worker", flag="--cpus", gt=0, sweep="cpus", unasked="any"),
]


@dataclass(frozen=True, kw_only=True)
class Resources(NetworkOptions):
    """The resources of each worker; None leaves the choice to the pool."""

    num_cpus: Cores = None
    """Cores of each worker, by default an equal share; fractions only on a cluster."""
    gpu_enabled: Annotated[bool, Option(label="GPU", flag="--gpu")] = False
    """Train on GPUs; your own code receives --gpu."""


@dataclass(frozen=True, kw_only=True)
class WorkerSpec(Resources):
    """The requirements of a run on each worker."""

    image: Annotated[str, Option()] = ""
    """Container image of the run; empty for the pool's own image."""


@dataclass(frozen=True, kw_only=True)
class CommonSpec(Resources):
    """The options that all runs of a benchmark set share."""

    benchmark: Annotated[str | None, Option()] = None
    """Name of the benchmark."""
    args: Annotated[Mapping[str, str], Option()] = field(default_factory=dict)
    """Options of the benchmark, such as `{"epochs": "3"}`."""
    working_dir: Annotated[str | None, Option()] = None
    """Folder on the workers that the command starts in; by default the worker's own."""
    backend: Annotated[str | None, Option(label="Backend", flag="--backend", example="gloo")] = None
    """Communication backend."""
    run_all_nodes: Annotated[bool, Option()] = False
    """Whether all ranks run the command, or rank 0 alone; for custom backends."""
    light_target: Annotated[bool, Option(label="Light target", flag="--light")] = False
    """Use the easier target; your own code receives --light."""
    deadline_seconds: Annotated[
        float | None,
        Option(
            label="Deadline (seconds)", example="90s, 15m or 2h", flag="--deadline", unit="s", gt=0
        ),
    ] = None
    """Maximum time from the start of the run to the end of training."""
    max_restarts: Annotated[int, Option(label="Restarts", flag="--restarts", ge=0, le=100)] = 0
    """Maximum number of restarts after failures."""
    faults: Annotated[
        str | None,
        Option(example="kill:every=15s", flag="--faults", sweep="faults", swept_out="none"),
    ] = None
    """Faults to inject, at times that follow from the seed; allows up to 100 restarts."""


Workers = Annotated[int, Option(label="Workers", flag="--workers", ge=1)]


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """The options in which the runs of a benchmark set differ, apart from swept options."""

    num_workers: Workers
    """Number of workers, one rank each."""
    seed: Annotated[int | None, Option(label="Seed", flag="--seed", ge=0, le=2**32 - 1)] = None
    """Random seed; your own code finds it in $MLBENCH_SEED."""


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
    fields = describe(spec).items()
    return {name: field for name, field in fields if isinstance(field, Option)}


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
