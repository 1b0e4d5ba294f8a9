"""Options of tasks: dataclasses that are read from texts and checked, in the master and the task.

A class of options has a default and a type for each field: bool, int, float, str, or a ``Literal``
of texts or numbers. An annotation's ``Meta`` bounds the values. The closed division allows the
default alone, unless the annotation has ``FREE`` or ``ruled``. The text under a field is its help;
a class that only changes the default inherits the text.
"""

import ast
import dataclasses
import inspect
import operator
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_args, get_origin, get_type_hints

from msgspec import Meta

from mlbench.names import VAL_ACCURACY, VAL_PERPLEXITY
from mlbench.stated import Setting, is_setting, spell

Count = Annotated[int, Meta(ge=1)]
Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Percent = Annotated[float, Meta(ge=0, le=100)]
Share = Annotated[float, Meta(gt=0, le=1)]
Perplexity = Annotated[float, Meta(ge=1)]
Momentum = Annotated[float, Meta(ge=0, lt=1)]

FREE = Meta(extra={"closed": None})
"""Any value is allowed in the closed division: hardware, systems, or how much is measured."""


def ruled(*others: Setting) -> Meta:
    """Return what allows these values in the closed division, besides the default."""
    return Meta(extra={"closed": others})


_WORDS = {"gt": "more than", "ge": "at least", "lt": "less than", "le": "at most"}


class OptionError(ValueError):
    """An option is wrong."""

    def __init__(self, option: str, problem: str) -> None:
        super().__init__(f"{option} {problem}")
        self.option = option
        self.problem = problem


@dataclass(frozen=True)
class Options:
    """The base of all options. A value that breaks a rule is an OptionError."""

    def _rules(self) -> dict[str, bool]:
        """Return each rule on several options, and whether it holds; its first word is an option.

        Subclasses add their own.
        """
        return {}

    @classmethod
    def implied(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the defaults that follow from what is given, where a class's own do not hold."""
        return {}

    def __post_init__(self) -> None:
        bounds = {
            f"{option.name} must be {option.bounds}": option.is_within(getattr(self, option.name))
            for option in describe(type(self))
        }
        for rule, holds in (bounds | self._rules()).items():
            if not holds:
                option, _, problem = rule.partition(" ")
                raise OptionError(option, problem)


C = TypeVar("C", bound=Options)


@dataclass(frozen=True)
class Described:
    """An option, for people."""

    name: str
    default: Any
    help: str
    kind: Any
    """The type of its values, or a ``Literal`` of them."""
    metas: tuple[Meta, ...]

    @property
    def limits(self) -> dict[str, float]:
        """Its bounds, by the names of Python's operators: ``ge`` and so on."""
        return {
            name: bound
            for meta in self.metas
            for name in _WORDS
            if (bound := getattr(meta, name)) is not None
        }

    @property
    def bounds(self) -> str:
        """Its bounds in words, such as "from 0 to 100"."""
        match self.limits:
            case {"ge": least, "le": most}:
                return f"from {least} to {most}"
            case limits:
                return " and ".join(f"{_WORDS[name]} {bound}" for name, bound in limits.items())

    def is_within(self, value: Any) -> bool:
        """Check that a value is within the bounds."""
        limits = self.limits.items()
        return all(getattr(operator, name)(value, bound) for name, bound in limits)

    @property
    def permitted(self) -> tuple[Setting, ...] | None:
        """What the closed division allows, the default first; None: anything."""
        closed = [meta.extra["closed"] for meta in self.metas if meta.extra] or [()]
        return None if closed[-1] is None else (self.default, *closed[-1])

    @property
    def choices(self) -> tuple[Any, ...]:
        """The values to choose from; empty for any number or text."""
        if self.kind is bool:
            return (True, False)
        return get_args(self.kind) if get_origin(self.kind) is Literal else ()

    def read(self, text: str) -> Any:
        """Return the value that a text spells; raise OptionError for one that spells none."""
        if self.choices:
            for choice in self.choices:
                if text == spell(choice):
                    return choice
            raise OptionError(
                self.name, f"must be {' or '.join(map(spell, self.choices))} (not {text!r})"
            )
        try:
            value = self.kind(text)
        except ValueError:
            kind = "a whole number" if self.kind is int else "a number"
            raise OptionError(self.name, f"must be {kind} (not {text!r})") from None
        if not is_setting(value):  # the run could not state it
            raise OptionError(self.name, f"must be finite, and below 2^63 if whole (not {text!r})")
        return value


def describe(config: type[Options]) -> tuple[Described, ...]:
    """Return all options of a class, in their order."""
    kinds, sentences = get_type_hints(config), _sentences(config)
    annotations = get_type_hints(config, include_extras=True)
    return tuple(
        Described(
            name=field.name,
            default=field.default,
            help=sentences.get(field.name, ""),
            kind=kinds[field.name],
            metas=getattr(annotations[field.name], "__metadata__", ()),
        )
        for field in dataclasses.fields(config)
    )


def read(config: type[C], texts: Mapping[str, str]) -> C:
    """Return options with these values; a name may have hyphens for underscores.

    Raises:
        OptionError: there is no such option, a text does not spell a value, or a rule is broken.
    """
    options = {option.name: option for option in describe(config)}
    values = {}
    for given, text in texts.items():
        name = given.replace("-", "_")
        if name not in options:
            close = get_close_matches(name, options, n=1)
            hint = f"do you mean {close[0]}?" if close else f"there are {', '.join(options)}"
            raise OptionError(given, f"is no option of this task: {hint}")
        values[name] = options[name].read(text)
    return config(**config.implied(values) | values)


def _sentences(config: type) -> dict[str, str]:
    """Return the text under each field, a base's too."""
    bases = (base for base in reversed(config.__mro__) if dataclasses.is_dataclass(base))
    return {name: text for base in bases for name, text in _own_sentences(base).items()}


@cache  # it takes milliseconds, and each order asks
def _own_sentences(config: type) -> dict[str, str]:
    """Return the text under each own field. Python drops it, so it is read from the source."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(config))).body
    assert isinstance(definition, ast.ClassDef)
    sentences: dict[str, str] = {}
    for field, below in zip(definition.body, definition.body[1:], strict=False):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                sentences[name] = text
    return sentences


# --- What several tasks take ---


@dataclass(frozen=True)
class TrainingOptions(Options):
    """The hyper-parameters of every training; a task sets the defaults."""

    goal_metric: ClassVar[str]
    lower_is_better: ClassVar[bool] = False

    goal: float = 0.0
    """Value of the goal's metric at which the training ends."""
    epochs: Count = 1
    """Epochs after which the training ends short of the goal."""
    learning_rate: Positive = 0.1
    """Step size."""
    seed: Annotated[int, Meta(ge=0, le=2**32 - 1), FREE] = 0
    """Start of all random numbers: the same seed on as many workers gives the same losses."""
    checkpoint_steps: Annotated[int, Meta(ge=0), FREE] = 0
    """Steps from checkpoint to checkpoint within an epoch, if the run may be restarted; 0: none."""


@dataclass(frozen=True)
class AccuracyOptions(TrainingOptions):
    """A training to a share of what is classified correctly."""

    goal_metric: ClassVar[str] = VAL_ACCURACY

    goal: Percent = 100.0
    """Validation accuracy in percent at which the training ends."""


@dataclass(frozen=True)
class PerplexityOptions(TrainingOptions):
    """The training of a language model to a perplexity: e to the mean cross entropy in nats."""

    goal_metric: ClassVar[str] = VAL_PERPLEXITY
    lower_is_better: ClassVar[bool] = True

    goal: Perplexity = 1.0
    """Validation perplexity at which the training ends; lower is better, 1 is perfect."""


@dataclass(frozen=True)
class MomentumOptions(AccuracyOptions):
    """The hyper-parameters of SGD with momentum and weight decay."""

    momentum: Momentum = 0.9
    """Share of the last update that the next one keeps."""
    weight_decay: NotNegative = 1e-4
    """Pull of all parameters towards zero."""


Backend = Literal["gloo", "nccl", "mpi"]


@dataclass(frozen=True)
class BackendOptions(Options):
    """How the ranks communicate."""

    backend: Annotated[Backend, FREE] = "gloo"
    """What carries the communication: gloo (CPU), nccl (GPU), or mpi, where PyTorch has it."""


@dataclass(frozen=True)
class DeviceOptions(Options):
    """Where a rank computes."""

    device: Annotated[Literal["auto", "cpu", "cuda"], FREE] = "auto"
    """Where to compute: auto is the GPU if there is one."""


@dataclass(frozen=True)
class ModelOptions(DeviceOptions):
    """Where and how a neural network is computed."""

    precision: Annotated[Literal["fp32", "tf32", "bf16", "fp16"], FREE] = "fp32"
    """Number format of products; the parameters stay fp32. tf32 and fp16 are for GPUs."""
    compile: Annotated[bool, FREE] = False
    """Whether torch.compile translates the model first, which takes up to a minute."""


Exchange = Literal[
    "ddp",
    "flat",
    "per-layer",
    "local-sgd",
    "post-local-sgd",
    "decentralized",
    "choco",
    "signsgd",
    "topk",
    "randomk",
    "qsgd",
    "powersgd",
]
Topology = Literal["ring", "complete"]


@dataclass(frozen=True)
class ImageModelOptions(ModelOptions):
    """Where and how a neural network for images is computed."""

    channels_last: Annotated[bool, FREE] = True
    """Whether images lie in memory pixel by pixel, which is faster, or channel by channel."""


@dataclass(frozen=True)
class ExchangeOptions(Options):
    """How ranks keep their models together: the algorithm, and what it may be set to."""

    # All three compute the same sum of gradients.
    exchange: Annotated[Exchange, ruled("flat", "per-layer")] = "ddp"
    """The algorithm: the first three send all gradients, the next four weights, others few bits."""
    compression: Literal["none", "fp16", "bf16"] = "none"
    """How ddp rounds gradients on their way."""
    local_steps: Annotated[Count, FREE] = 16
    """Steps that each rank of local SGD takes alone."""
    switch_epoch: Annotated[Count, FREE] = 5
    """Epoch in which the local steps of post-local SGD begin; gradients are averaged before."""
    topology: Annotated[Topology, FREE] = "ring"
    """Which ranks are neighbours in decentralized algorithms."""
    gossip_compression: Annotated[Literal["sign", "topk"], FREE] = "sign"
    """How choco's ranks compress what they tell: a bit for each weight, or the largest changes."""
    gossip_step: Annotated[Share, FREE] = 0.4
    """How far choco's ranks go towards their neighbours in a step: 1 is all the way."""
    density: Annotated[Share, FREE] = 0.01
    """Share of the values that topk and randomk, or choco with topk, send."""
    bits: Annotated[Literal[2, 4, 8], FREE] = 4
    """Bits of each value that qsgd sends."""
    matrix_rank: Annotated[Count, FREE] = 2
    """Rank of the matrices that powersgd sends."""

    def _rules(self) -> dict[str, bool]:
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        rules = {
            f"{name} needs exchange={' or '.join(users)}": (
                self.exchange in users or getattr(self, name) == defaults[name]
            )
            for name, users in _USERS.items()
        }
        # It multiplies gradients by a factor of its own, which changes: no memory could be kept.
        scaled = getattr(self, "precision", None) == "fp16"
        return super()._rules() | {
            **rules,
            f"precision must not be fp16 with exchange={self.exchange}": (
                not scaled or self.exchange not in _REMEMBERING
            ),
        }


# The algorithms that an option is for.
_USERS = {
    "compression": ("ddp",),
    "local_steps": ("local-sgd", "post-local-sgd"),
    "switch_epoch": ("post-local-sgd",),
    "topology": ("decentralized", "choco"),
    "gossip_compression": ("choco",),
    "gossip_step": ("choco",),
    "density": ("topk", "randomk", "choco"),
    "bits": ("qsgd",),
    "matrix_rank": ("powersgd",),
}
_REMEMBERING = {"signsgd", "topk", "randomk", "powersgd"}


def in_use(settings: Mapping[str, Setting]) -> dict[str, Setting]:
    """Return the settings of a run without those of algorithms that it does not use."""
    exchange = settings.get("exchange")
    if exchange not in get_args(Exchange):
        return dict(settings)
    return {
        name: value for name, value in settings.items() if exchange in _USERS.get(name, {exchange})
    }


Framework = Literal["torch", "jax", "tensorflow"]


def framework_of(config: Options) -> Framework:
    """Return what trains the model of a task."""
    return config.framework if isinstance(config, FrameworkOptions) else "torch"


@dataclass(frozen=True)
class FrameworkOptions(Options):
    """What computes the training."""

    framework: Annotated[Framework, FREE] = "torch"
    """What trains the model: PyTorch, or on CPUs in fp32 JAX or TensorFlow, where installed."""

    def _rules(self) -> dict[str, bool]:
        rules = super()._rules()
        if self.framework == "torch":
            return rules
        return rules | {
            f"{name} must be {' or '.join(map(spell, right))} with framework={self.framework}": (
                getattr(self, name, right[0]) in right
            )
            for name, right in _OF_FRAMEWORKS.items()
        }


# What JAX and TensorFlow train with here: fp32 on CPUs, and one sum of all gradients.
_OF_FRAMEWORKS: Mapping[str, tuple[Any, ...]] = {
    "backend": ("gloo",),
    "device": ("auto", "cpu"),
    "precision": ("fp32",),
    "channels_last": (True,),
    "compile": (False,),
    "exchange": ("ddp",),
    "compression": ("none",),
}
