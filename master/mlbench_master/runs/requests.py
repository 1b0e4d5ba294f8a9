"""Bodies of requests for runs and benchmark sets, and their validation."""

import hashlib
import re
import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any

from mlbench.benchmarks.benchmark import Benchmark
from mlbench.benchmarks.registry import (
    BENCHMARKS,
    DEFAULT,
    IMAGE_PATTERN,
    IMAGES,
    MISSING_IMAGES,
    Image,
    find_image,
)
from mlbench.contract import faults
from mlbench.contract.fields import NO_NUL, Before, Field
from mlbench.contract.limits import (
    MAX_COMMAND_LENGTH,
    MAX_PATH_LENGTH,
    MAX_RESOURCE_NAME_LENGTH,
    MAX_RUN_NAME_LENGTH,
)
from mlbench.contract.names import UNASKED_BANDWIDTH
from mlbench.contract.runspec import CommonSpec, Repeat, RunSpec
from mlbench.evaluation.official_rules import scoring
from mlbench_master.settings import InstallationLimits

NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
# No control characters, which could control a terminal, and no spaces at either end.
_DISPLAY_NAME = re.compile(r"[^\x00-\x20\x7f-\xa0]([^\x00-\x1f\x7f-\x9f]*[^\x00-\x20\x7f-\xa0])?")
CUSTOM_IMAGE = "custom_image"
CUSTOM_BACKEND = "custom_backend"


def check_display_name(name: str) -> str:
    """Return a valid display name of a run; raise ValueError for others."""
    if not _DISPLAY_NAME.fullmatch(name) or len(name) > MAX_RUN_NAME_LENGTH:
        raise ValueError("must have 1 to 100 printable characters, and no spaces at either end")
    return name


def _check_set_name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise ValueError(
            "must consist of lowercase letters, digits and hyphens, and start and end with a "
            "letter or digit"
        )
    return name


def _check_command(command: str) -> str:
    if not any(shlex.split(command)[:1]):
        raise ValueError("must name a program")
    return command


def _check_benchmark(name: str) -> str:
    if name in (CUSTOM_IMAGE, *BENCHMARKS):
        return name
    choices = f"{', '.join(BENCHMARKS)}, or your own with image_name={CUSTOM_IMAGE}"
    raise ValueError(f"unknown benchmark. Use {choices}.")


def _check_image(name: str) -> str:
    if name in (CUSTOM_IMAGE, *BENCHMARKS) or find_image(name):
        return name
    problem = MISSING_IMAGES.get(name.partition(":")[0], "unknown image")
    choices = f"{', '.join([*BENCHMARKS, *IMAGES])}, or your own with image_name={CUSTOM_IMAGE}"
    raise ValueError(f"{problem}. Use {choices}.")


def _check_faults(text: str) -> str:
    faults.parse(text)
    return text


def _read_text(value: Any) -> Any:
    """Return a number as a string."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


Folder = Annotated[str, Field(pattern=r"^/[^\x00]*$", max_length=MAX_PATH_LENGTH)]
ArgKey = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$", max_length=64)]
# Values may be numbers in JSON. The benchmark gets them as strings.
ArgValue = Annotated[
    str,
    Before(_read_text),
    Field(pattern=NO_NUL, max_length=1024, schema={"type": ["string", "number"]}),
]
Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@-]*$", max_length=255)]
Command = Annotated[str, Field(pattern=NO_NUL, max_length=MAX_COMMAND_LENGTH), _check_command]
Task = Annotated[str, Field(schema={"enum": [*BENCHMARKS]}), _check_benchmark]
_IMAGES_SCHEMA = [{"enum": [*BENCHMARKS, CUSTOM_IMAGE]}, {"pattern": f"^{IMAGE_PATTERN}$"}]
ImageName = Annotated[str, Field(schema={"anyOf": _IMAGES_SCHEMA}), _check_image]
DisplayName = Annotated[
    str,
    Field(max_length=MAX_RUN_NAME_LENGTH, schema={"pattern": f"^{_DISPLAY_NAME.pattern}$"}),
    check_display_name,
]


MAX_RUNS = 200
"""Maximum number of runs in a benchmark set, and in a comparison."""


@dataclass(frozen=True, kw_only=True)
class CommonRequest(CommonSpec):
    """Benchmark or command, and the settings that all runs of a benchmark set share."""

    name: DisplayName
    """Display name of the run."""
    benchmark: Task | None = None
    """Benchmark to run. Default: ``digits``, unless another field names a benchmark or image."""
    image_name: ImageName | None = None
    """Name of a benchmark, name of an image of MLBench, or ``custom_image``."""
    custom_image_name: Word | None = None
    """Container image of the command."""
    custom_image_command: Command | None = None
    """Command that the workers run, quoted for a shell."""
    working_dir: Folder | None = None
    backend: Word | None = None
    """Communication backend. ``GET /api/benchmarks/`` lists the backends of each benchmark."""
    custom_backend: Word | None = None
    """Name of your own backend, with the backend ``custom_backend``."""
    faults: Annotated[str | None, _check_faults] = None
    args: Annotated[dict[ArgKey, ArgValue], Field(max_length=100)] = field(default_factory=dict)

    @property
    def is_custom(self) -> bool:
        """Whether the request has its own command."""
        return self.image_name == CUSTOM_IMAGE or self.custom_image_command is not None

    @property
    def task(self) -> Benchmark | None:
        """The benchmark; None if the request has its own command."""
        if self.is_custom:
            return None
        name = self._image.benchmark if self._image else self.benchmark or self.image_name
        return BENCHMARKS[name] if name else DEFAULT

    @property
    def by_default(self) -> bool:
        """Whether the request names no benchmark, so that the default benchmark runs."""
        return not (self.is_custom or self.benchmark or self.image_name)

    @property
    def _image(self) -> Image | None:
        return find_image(self.image_name) if self.image_name else None

    @property
    def stated_args(self) -> dict[str, Mapping[str, str]]:
        """Arguments of the benchmark that other fields imply, by the field that implies them."""
        task = self.task
        if task is None:
            return {}
        on_gpu = self.gpu_enabled and task.on_gpu
        return {
            task.name: task.args,
            "image_name": self._image.args if self._image else {},
            "light_target": task.light_args if self.light_target else {},
            "backend": {"backend": self.backend_name} if self.backend and task.backends else {},
            "gpu_enabled": {"device": "cuda"} if on_gpu else {},
        }

    @property
    def all_args(self) -> dict[str, str]:
        """Arguments of the benchmark: ``args``, and arguments that other fields imply."""
        implied = {key: value for args in self.stated_args.values() for key, value in args.items()}
        return implied | self.args

    @property
    def framework(self) -> str:
        """Training framework of the benchmark."""
        return self.args.get("framework", "torch")

    @property
    def backend_name(self) -> str:
        """Communication backend in lowercase, as PyTorch names it."""
        if self.backend == CUSTOM_BACKEND:
            return self.custom_backend or ""
        in_args = self.args.get("backend") if self.task and self.task.backends else None
        return (self.backend or in_args or "gloo").lower()

    @property
    def runs_on_all(self) -> bool:
        """Whether every rank runs the command. With MPI, rank 0 runs a command that starts all."""
        if self.task is not None:
            return True
        if self.backend == CUSTOM_BACKEND:
            return self.run_all_nodes
        return self.backend_name != "mpi"

    def wanted_bandwidth(self, limits: InstallationLimits) -> float | None:
        """Return the bandwidth limit of each worker in Mbit/s; None for no limit.

        Without a request, it is the limit of the pool.
        """
        is_default = self.max_bandwidth == UNASKED_BANDWIDTH > limits.bandwidth
        requested = None if is_default else self.max_bandwidth
        return requested or limits.bandwidth or None

    def __post_init__(self) -> None:
        if self.benchmark == CUSTOM_IMAGE:
            raise ValueError(f"benchmark: {CUSTOM_IMAGE} is not a benchmark. Use image_name.")
        if self.benchmark and self.image_name:
            raise ValueError("benchmark and image_name: only one of the two is allowed")
        if self.is_custom and (self.benchmark or self.image_name != CUSTOM_IMAGE):
            raise ValueError(f"custom_image_command: requires image_name={CUSTOM_IMAGE}")
        if self.is_custom and not (self.custom_image_name and self.custom_image_command):
            raise ValueError("custom_image_name and custom_image_command: both are required")
        if self.custom_image_name and not self.is_custom:
            raise ValueError(f"custom_image_name: requires image_name={CUSTOM_IMAGE}")
        if self.is_custom and self.args:
            raise ValueError(
                "args: not allowed with custom_image_command. Put them into the command."
            )
        if self.working_dir is not None and not self.is_custom:
            raise ValueError("working_dir: requires custom_image_command")
        if (self.backend == CUSTOM_BACKEND) != (self.custom_backend is not None):
            raise ValueError(f"custom_backend: requires backend={CUSTOM_BACKEND}, and vice versa")


def kubernetes_name(name: str) -> str:
    """Return a name that Kubernetes accepts: the name itself, or one derived from it.

    A derived name ends with a digest, so that different names stay different.
    """
    if NAME.fullmatch(name) and len(name) <= MAX_RESOURCE_NAME_LENGTH:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:6]
    stem = re.sub("[^a-z0-9]+", "-", name.lower())[
        : MAX_RESOURCE_NAME_LENGTH - len(digest) - 1
    ].strip("-")
    return f"{stem or 'run'}-{digest}"


@dataclass(frozen=True, kw_only=True)
class RunRequest(CommonRequest, RunSpec):
    """The body of ``POST /api/runs/``."""

    queue: bool = False
    """Queue the run if another run is active, instead of refusing the request."""

    @property
    def stated_args(self) -> dict[str, Mapping[str, str]]:
        """Arguments of the benchmark that other fields imply, by the field that implies them."""
        implied = super().stated_args
        if self.seed is not None and self.task is not None:
            implied["seed"] = {"seed": str(self.seed)}
        return implied


@dataclass(frozen=True, kw_only=True)
class SlotRequest(Repeat):
    """A slot of a benchmark set: number of workers, swept values, and a seed of its own."""

    swept: Annotated[dict[ArgKey, ArgValue], Field(max_length=10)] = field(default_factory=dict)
    """Swept values of this slot, by option of the benchmark, ``bandwidth``, ``cpus`` and so on."""


@dataclass(frozen=True, kw_only=True)
class SetRequest(CommonRequest):
    """The body of ``POST /api/sets/``."""

    name: Annotated[
        str,
        Field(max_length=MAX_RESOURCE_NAME_LENGTH, schema={"pattern": f"^{NAME.pattern}$"}),
        _check_set_name,
    ]
    """Name of the benchmark set, with which the names of its runs begin."""
    slots: Annotated[list[SlotRequest], Field(min_length=1, max_length=MAX_RUNS)]
    """Planned runs, in this order."""
    official: bool = False
    """Follow MLPerf's rules."""
    until_percent: Annotated[float | None, Field(gt=0, lt=100)] = None
    """Stop repeating once the confidence interval of every mean is within this percentage."""

    def __post_init__(self) -> None:
        super().__post_init__()
        scored = scoring()
        if self.official and scored is None:
            raise ValueError("official: no rules of scoring are installed. Leave out official.")
        if self.official and self.until_percent is not None:
            raise ValueError("until_percent: not allowed with official, because all slots are run")
        if self.official and any(slot.swept for slot in self.slots):
            raise ValueError("official: sweeps cannot be scored. Leave out swept.")
        if self.official and self.faults:
            raise ValueError("official: runs with faults cannot be scored. Leave out faults.")
        if len({frozenset(slot.swept) for slot in self.slots}) > 1:
            raise ValueError("slots: swept must have the same keys in all slots")
        counts = Counter(slot.num_workers for slot in self.slots)
        few = min(counts, key=lambda workers: counts[workers])
        if self.official and scored and counts[few] < scored.official_runs:
            raise ValueError(
                f"official: each number of workers must have at least {scored.official_runs} slots "
                f"(got {counts[few]} with {few} workers)"
            )
        seeds = Counter(
            (slot.seed, slot.num_workers, frozenset(slot.swept.items()))
            for slot in self.slots
            if slot.seed is not None
        )
        for (seed, *_), count in seeds.items():
            if count > 1:
                raise ValueError(f"slots: seeds must be unique (got seed {seed} twice)")

    def shared(self) -> dict[str, Any]:
        """Return the fields that all runs share, without default values."""
        shared = {field.name: getattr(self, field.name) for field in fields(CommonRequest)}
        defaults = vars(CommonRequest(name=self.name))
        return {name: value for name, value in shared.items() if value != defaults[name]}
