"""The bodies of requests for runs and sets, in MLBench's words and ours, and their checks."""

import hashlib
import json
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic.dataclasses import dataclass as request
from pydantic.fields import FieldInfo

from mlbench.benchmarks.registry import (
    BENCHMARKS,
    DEFAULT,
    IMAGE_PATTERN,
    IMAGES,
    MISSING_IMAGES,
    Benchmark,
    Image,
    find_image,
)
from mlbench.contract import faults
from mlbench.contract.names import UNASKED_BANDWIDTH
from mlbench.contract.runspec import CommonSpec, Repeat, RunSpec, options_of
from mlbench.evaluation.official_rules import OFFICIAL_RUNS
from mlbench_master.http.fields import NO_NUL, refuse_number, refuse_truth_value
from mlbench_master.settings import Limits

LONGEST_NAME = 40
NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_LONGEST_DISPLAY_NAME = 100
# Neither control characters, which terminals obey, nor blanks at its ends.
_DISPLAY_NAME = re.compile(r"[^\x00-\x20\x7f-\xa0]([^\x00-\x1f\x7f-\x9f]*[^\x00-\x20\x7f-\xa0])?")
_DIGEST_LETTERS = 6
_CUSTOM_IMAGE = "custom_image"
CUSTOM_BACKEND = "custom_backend"


def check_display_name(name: str) -> str:
    """Return a name that a run may have; raise ValueError for others."""
    if not _DISPLAY_NAME.fullmatch(name) or len(name) > _LONGEST_DISPLAY_NAME:
        raise ValueError("must have 1 to 100 printable characters, and no spaces at either end")
    return name


def _check_command(command: str) -> str:
    if not any(shlex.split(command)[:1]):
        raise ValueError("must name a program")
    return command


Folder = Annotated[str, Field(pattern=r"^/[^\x00]*$", max_length=4096)]
ArgKey = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$", max_length=64)]
# JSON may have a number here, which the task gets as text.
ArgValue = Annotated[
    str,
    Field(coerce_numbers_to_str=True, pattern=NO_NUL, max_length=1024),
    WithJsonSchema(
        {"anyOf": [{"type": "string", "pattern": NO_NUL, "maxLength": 1024}, {"type": "number"}]}
    ),
]
Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@-]*$", max_length=255)]
Command = Annotated[str, Field(pattern=NO_NUL, max_length=4096), AfterValidator(_check_command)]
Task = Annotated[str, Field(json_schema_extra={"enum": [*BENCHMARKS]})]
_IMAGES_SCHEMA = [{"enum": [*BENCHMARKS, _CUSTOM_IMAGE]}, {"pattern": f"^{IMAGE_PATTERN}$"}]
ImageName = Annotated[str, Field(json_schema_extra={"anyOf": _IMAGES_SCHEMA})]
DisplayName = Annotated[
    str,
    Field(
        max_length=_LONGEST_DISPLAY_NAME,
        json_schema_extra={"pattern": f"^{_DISPLAY_NAME.pattern}$"},
    ),
    AfterValidator(check_display_name),
]

MOST_RUNS = 200
"""Of a set, and of a comparison."""
_MOST_SWEPT = 10

STRICT = ConfigDict(extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)


class Checked:
    """The checks of boolean fields, and of those that ``mlbench/contract/runspec.py`` describes."""

    __pydantic_fields__: ClassVar[dict[str, FieldInfo]]

    @field_validator("*", mode="before")
    @classmethod
    def _is_number_or_truth_value(cls, value: object, info: ValidationInfo) -> object:
        name = info.field_name or ""
        if cls.__pydantic_fields__[name].annotation is bool:
            return refuse_number(value)
        option = options_of(cls).get(name)
        return refuse_truth_value(value) if option and option.is_number else value

    @field_validator("num_cpus", mode="before", check_fields=False)
    @classmethod
    def _may_be_millicores(cls, cores: object) -> object:
        """Read the notation of Kubernetes too: ``2000m`` is 2 cores."""
        millicores = re.fullmatch(r"([0-9]{1,9})m", cores) if isinstance(cores, str) else None
        return int(millicores[1]) / 1000 if millicores else cores

    @field_validator("*")
    @classmethod
    def _within_bounds(cls, value: object, info: ValidationInfo) -> object:
        option = options_of(cls).get(info.field_name or "")
        if option and isinstance(value, float | int) and (problem := option.problem(value)):
            raise ValueError(f"must be {problem}")
        return value


@request(frozen=True, kw_only=True, config=STRICT)
class CommonRequest(CommonSpec, Checked):
    """What to run and how: what all runs of a set share."""

    name: DisplayName
    """Any text."""
    benchmark: Task | None = None
    """An official task. ``digits`` where no other field says what to run."""
    image_name: ImageName | None = None
    """An official task too, by its name or by that of MLBench's image, or ``custom_image``."""
    custom_image_name: Word | None = None
    custom_image_command: Command | None = None
    working_dir: Folder | None = None
    """The folder, on the workers, that the command starts in; by default one of the worker's."""
    backend: Word | None = None
    """What the ranks communicate with; of an official task, what ``GET /api/benchmarks/`` says."""
    custom_backend: Word | None = None
    args: dict[ArgKey, ArgValue] = Field(default_factory=dict, max_length=100)

    @property
    def is_custom(self) -> bool:
        """Whether it brings its own command."""
        return self.image_name == _CUSTOM_IMAGE or self.custom_image_command is not None

    @property
    def task(self) -> Benchmark | None:
        """The official task; nothing where the order brings its own command."""
        if self.is_custom:
            return None
        name = self._image.benchmark if self._image else self.benchmark or self.image_name
        return BENCHMARKS[name] if name else DEFAULT

    @property
    def by_default(self) -> bool:
        """Whether it names nothing to run, so that it is of the default task."""
        return not (self.is_custom or self.benchmark or self.image_name)

    @property
    def _image(self) -> Image | None:
        return find_image(self.image_name) if self.image_name else None

    @property
    def stated_args(self) -> dict[str, Mapping[str, str]]:
        """The task's arguments that its name and other fields imply, by what implies them."""
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
        """The task's arguments: those given, and what other fields say of them."""
        stated = {key: value for said in self.stated_args.values() for key, value in said.items()}
        return stated | self.args

    @property
    def framework(self) -> str:
        """What an official task trains with."""
        return self.args.get("framework", "torch")

    @property
    def backend_name(self) -> str:
        """The communication backend, in lowercase, as PyTorch names them."""
        if self.backend == CUSTOM_BACKEND:
            return self.custom_backend or ""
        in_args = self.args.get("backend") if self.task and self.task.backends else None
        return (self.backend or in_args or "gloo").lower()

    @property
    def runs_on_all(self) -> bool:
        """Whether every rank runs the command: with MPI, one of the user's own starts them all."""
        if self.task is not None:
            return True
        if self.backend == CUSTOM_BACKEND:
            return self.run_all_nodes
        return self.backend_name != "mpi"

    def wanted_bandwidth(self, limits: Limits) -> float | None:
        """Return the Mbit/s to hold the workers to: what was asked for, else the usual limit.

        None where there is neither.
        """
        unasked = self.max_bandwidth == UNASKED_BANDWIDTH > limits.bandwidth
        asked = None if unasked else self.max_bandwidth
        return asked or limits.bandwidth or None

    @field_validator("faults")
    @classmethod
    def _are_faults(cls, text: str | None) -> str | None:
        if text is not None:
            faults.parse(text)
        return text

    @field_validator("benchmark")
    @classmethod
    def _is_known(cls, name: str | None) -> str | None:
        if name not in (None, _CUSTOM_IMAGE, *BENCHMARKS):
            raise ValueError(_what_there_is("unknown benchmark", BENCHMARKS))
        return name

    @field_validator("image_name")
    @classmethod
    def _is_known_image(cls, name: str | None) -> str | None:
        known = name in (None, _CUSTOM_IMAGE, *BENCHMARKS) or find_image(name or "")
        if not known:
            reason = MISSING_IMAGES.get(str(name).partition(":")[0], "unknown image")
            raise ValueError(_what_there_is(reason, [*BENCHMARKS, *IMAGES]))
        return name

    @field_validator("args", mode="before")
    @classmethod
    def _may_be_text(cls, args: Any) -> Any:
        """A form has no objects, so there they are JSON."""
        if not isinstance(args, str):
            return args
        try:
            return json.loads(args)
        except ValueError:
            raise ValueError("must be a JSON object") from None

    @model_validator(mode="after")
    def _says_one_thing(self) -> Self:
        if self.benchmark == _CUSTOM_IMAGE:
            raise ValueError(f"benchmark: {_CUSTOM_IMAGE} is not a benchmark. Use image_name.")
        if self.benchmark and self.image_name:
            raise ValueError("benchmark and image_name: only one of the two is allowed")
        if self.is_custom and (self.benchmark or self.image_name != _CUSTOM_IMAGE):
            raise ValueError(f"custom_image_command: requires image_name={_CUSTOM_IMAGE}")
        if self.is_custom and not (self.custom_image_name and self.custom_image_command):
            raise ValueError("custom_image_name and custom_image_command: both are required")
        if self.custom_image_name and not self.is_custom:
            raise ValueError(f"custom_image_name: requires image_name={_CUSTOM_IMAGE}")
        if self.is_custom and self.args:
            raise ValueError(
                "args: not allowed with custom_image_command. Put them into the command."
            )
        if self.working_dir is not None and not self.is_custom:
            raise ValueError("working_dir: requires custom_image_command")
        if (self.backend == CUSTOM_BACKEND) != (self.custom_backend is not None):
            raise ValueError(f"custom_backend: requires backend={CUSTOM_BACKEND}, and vice versa")
        return self


def kubernetes_name(name: str) -> str:
    """Return a name itself, if Kubernetes takes it, or else one made from it.

    That ends with a digest, so that no two names become the same.
    """
    if NAME.fullmatch(name) and len(name) <= LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST_LETTERS]
    stem = re.sub("[^a-z0-9]+", "-", name.lower())[: LONGEST_NAME - _DIGEST_LETTERS - 1].strip("-")
    return f"{stem or 'run'}-{digest}"


@request(frozen=True, kw_only=True, config=STRICT)
class RunRequest(CommonRequest, RunSpec):
    """The body of ``POST /api/runs/``."""

    queue: bool = False
    """Whether to wait for the active run, instead of being refused."""

    @property
    def stated_args(self) -> dict[str, Mapping[str, str]]:
        """The task's arguments that its name and other fields imply, by what implies them."""
        said = {} if self.seed is None or self.task is None else {"seed": {"seed": str(self.seed)}}
        return super().stated_args | said


@request(frozen=True, kw_only=True, config=STRICT)
class PlaceRequest(Repeat, Checked):
    """A place of a set: what is run there, and its seed, which no other on as many workers has."""

    swept: dict[ArgKey, ArgValue] = Field(default_factory=dict, max_length=_MOST_SWEPT)
    """What this place varies, by option of the task, or ``bandwidth``, ``cpus``, and so on."""


@request(frozen=True, kw_only=True, config=STRICT)
class SetRequest(CommonRequest):
    """The body of ``POST /api/sets/``."""

    name: str = Field(max_length=LONGEST_NAME, json_schema_extra={"pattern": f"^{NAME.pattern}$"})
    """What the names of its runs begin with."""
    places: list[PlaceRequest] = Field(min_length=1, max_length=MOST_RUNS)
    """What is to be run, in this order."""
    official: bool = False
    """Whether to follow MLPerf's rules."""
    until_percent: Annotated[float | None, BeforeValidator(refuse_truth_value)] = Field(
        default=None, gt=0, lt=100
    )
    """End repeating once every mean is known to within so much."""

    @field_validator("name")
    @classmethod
    def _name_fits_kubernetes(cls, name: str) -> str:
        if not NAME.fullmatch(name):
            raise ValueError(
                "must consist of lowercase letters, digits and hyphens, and start and end with a "
                "letter or digit"
            )
        return name

    @model_validator(mode="after")
    def _follows_its_rules(self) -> Self:
        if self.official and self.until_percent is not None:
            raise ValueError("until_percent: not allowed with official, because all places are run")
        if self.official and any(place.swept for place in self.places):
            raise ValueError("official: sweeps cannot be scored. Leave out swept.")
        if self.official and self.faults:
            raise ValueError("official: runs with faults cannot be scored. Leave out faults.")
        if len({frozenset(place.swept) for place in self.places}) > 1:
            raise ValueError("places: swept must have the same keys in all places")
        counts = Counter(place.num_workers for place in self.places)
        few = min(counts, key=lambda workers: counts[workers])
        if self.official and counts[few] < OFFICIAL_RUNS:
            raise ValueError(
                f"official: each number of workers must have at least {OFFICIAL_RUNS} places "
                f"(got {counts[few]} with {few} workers)"
            )
        used = Counter(
            (slot.seed, slot.num_workers, frozenset(slot.swept.items()))
            for slot in self.places
            if slot.seed is not None
        )
        twice = next((key for key, times in used.items() if times > 1), None)
        if twice is not None:
            raise ValueError(f"places: seeds must be unique (got seed {twice[0]} twice)")
        return self

    def shared(self) -> dict[str, Any]:
        """Return what all runs are ordered with, as JSON; what has its default is left out."""
        shared = {field.name for field in fields(CommonRequest)} - {"name"}
        given: dict[str, Any] = TypeAdapter(SetRequest).dump_python(
            self, mode="json", include=shared, exclude_defaults=True
        )
        return given


@request(frozen=True, kw_only=True, config=STRICT)
class NextRunRequest(Checked):
    """The body of ``POST /api/sets/{name}/runs/``."""

    place: Annotated[int, BeforeValidator(refuse_truth_value)] = Field(ge=1)
    queue: bool = False
    """Whether to wait for the active run, instead of being refused."""


def _what_there_is(problem: str, known: Iterable[str]) -> str:
    choices = ", ".join(known)
    return f"{problem}. Use {choices}, or your own with image_name={_CUSTOM_IMAGE}."
