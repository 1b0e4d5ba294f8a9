"""Options that several benchmarks share: hyperparameters, devices, exchange and framework."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_args

from mlbench.benchmarks.options import FREE, Options, ruled
from mlbench.contract.extensions import registered
from mlbench.contract.fields import Field
from mlbench.contract.names import VAL_ACCURACY, VAL_PERPLEXITY
from mlbench.contract.reported_settings import Setting, format_value

Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Percent = Annotated[float, Field(ge=0, le=100)]
Share = Annotated[float, Field(gt=0, le=1)]
Perplexity = Annotated[float, Field(ge=1)]
Momentum = Annotated[float, Field(ge=0, lt=1)]


@dataclass(frozen=True)
class TrainingOptions(Options):
    """The hyperparameters of every training. Each benchmark sets the defaults."""

    goal_metric: ClassVar[str]
    lower_is_better: ClassVar[bool] = False

    goal: float = 0.0
    """Target: value of the metric at which training ends."""
    epochs: Count = 1
    """Maximum number of epochs, if the target is not reached before."""
    learning_rate: Positive = 0.1
    """Step size."""
    seed: Annotated[int, Field(ge=0, le=2**32 - 1), FREE] = 0
    """Random seed: equal seeds and numbers of workers give equal losses."""
    checkpoint_steps: Annotated[int, Field(ge=0), FREE] = 0
    """Steps between checkpoints within an epoch, for a run with restarts; 0: none."""


@dataclass(frozen=True)
class AccuracyOptions(TrainingOptions):
    """The options of a training with a target accuracy."""

    goal_metric: ClassVar[str] = VAL_ACCURACY

    goal: Percent = 100.0
    """Target validation accuracy, in percent."""


@dataclass(frozen=True)
class PerplexityOptions(TrainingOptions):
    """The options of a language model with a target perplexity, e to the mean cross entropy."""

    goal_metric: ClassVar[str] = VAL_PERPLEXITY
    lower_is_better: ClassVar[bool] = True

    goal: Perplexity = 1.0
    """Target validation perplexity; lower is better, 1 is perfect."""


@dataclass(frozen=True)
class MomentumOptions(AccuracyOptions):
    """The hyperparameters of SGD with momentum and weight decay."""

    momentum: Momentum = 0.9
    """Momentum of SGD: share of the last update that the next update keeps."""
    weight_decay: NotNegative = 1e-4
    """Weight decay of all parameters."""


Backend = Literal["gloo", "nccl", "mpi"]


@dataclass(frozen=True)
class BackendOptions(Options):
    """The communication between ranks."""

    backend: Annotated[Backend, FREE] = "gloo"
    """Communication backend: gloo (CPU), nccl (GPU), or mpi if PyTorch was built with it."""


@dataclass(frozen=True)
class DeviceOptions(Options):
    """The device of a rank."""

    device: Annotated[Literal["auto", "cpu", "cuda"], FREE] = "auto"
    """Device to train on: auto is the GPU if there is one."""


@dataclass(frozen=True)
class ModelOptions(DeviceOptions):
    """The execution of a neural network."""

    precision: Annotated[Literal["fp32", "tf32", "bf16", "fp16"], FREE] = "fp32"
    """Number format of products; parameters stay in fp32. tf32 and fp16 need a GPU."""
    compile: Annotated[bool, FREE] = False
    """Whether to compile the model with torch.compile first, which takes up to a minute."""


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
    """The execution of a neural network for images."""

    channels_last: Annotated[bool, FREE] = True
    """Whether to store images pixel by pixel, which is faster than channel by channel."""


@dataclass(frozen=True)
class ExchangeOptions(Options):
    """The exchange algorithm, which keeps the models of the ranks together, and its options."""

    # All three compute the same sum of gradients.
    exchange: Annotated[Exchange, ruled("flat", "per-layer")] = "ddp"
    """Algorithm: the first three send all gradients, the next four weights, others few bits."""
    compression: Literal["none", "fp16", "bf16"] = "none"
    """Rounding of gradients that ddp sends."""
    local_steps: Annotated[Count, FREE] = 16
    """Number of steps of local SGD between two exchanges."""
    switch_epoch: Annotated[Count, FREE] = 5
    """Epoch in which post-local SGD starts local steps; before, it averages gradients."""
    topology: Annotated[Topology, FREE] = "ring"
    """Neighbors of a rank in decentralized algorithms."""
    gossip_compression: Annotated[Literal["sign", "topk"], FREE] = "sign"
    """Compression of choco's messages: a bit for each weight, or the largest changes."""
    gossip_step: Annotated[Share, FREE] = 0.4
    """Share of the distance to their neighbours that choco's ranks move per step."""
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
        # fp16 scales gradients by a factor that changes, so the algorithms cannot remember them.
        scaled = getattr(self, "precision", None) == "fp16"
        return super()._rules() | {
            **rules,
            f"precision must not be fp16 with exchange={self.exchange}": (
                not scaled or self.exchange not in _REMEMBERING
            ),
        }


# Exchange algorithms that use an option.
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
    """Return the settings of a run without the options of unused exchange algorithms."""
    exchange = settings.get("exchange")
    if exchange not in get_args(Exchange):
        return dict(settings)
    return {
        name: value for name, value in settings.items() if exchange in _USERS.get(name, {exchange})
    }


if TYPE_CHECKING:
    Framework = str
else:
    # PyTorch, and the frameworks that extensions register.
    Framework = Literal["torch", *registered("mlbench.frameworks")]


def framework_of(config: Options) -> str:
    """Return the framework that trains the model of a benchmark."""
    return config.framework if isinstance(config, FrameworkOptions) else "torch"


@dataclass(frozen=True)
class FrameworkOptions(Options):
    """The framework of the training."""

    framework: Annotated[Framework, FREE] = "torch"
    """Framework: torch, or, if installed, another one (on CPUs, in fp32)."""

    def _rules(self) -> dict[str, bool]:
        rules = super()._rules()
        if self.framework == "torch":
            return rules
        for name, allowed in _OTHER_FRAMEWORKS.items():
            choice = " or ".join(map(format_value, allowed))
            rule = f"{name} must be {choice} with framework={self.framework}"
            rules[rule] = getattr(self, name, allowed[0]) in allowed
        return rules


# Allowed options with other frameworks than PyTorch: fp32 on CPUs, with one sum of all gradients.
_OTHER_FRAMEWORKS: Mapping[str, tuple[Any, ...]] = {
    "backend": ("gloo",),
    "device": ("auto", "cpu"),
    "precision": ("fp32",),
    "channels_last": (True,),
    "compile": (False,),
    "exchange": ("ddp",),
    "compression": ("none",),
}
