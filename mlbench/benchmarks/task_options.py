"""What several tasks take: their hyper-parameters, devices, exchange and framework."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, get_args

from msgspec import Meta

from mlbench.benchmarks.options import FREE, Options, ruled
from mlbench.contract.names import VAL_ACCURACY, VAL_PERPLEXITY
from mlbench.contract.stated import Setting, spell

Count = Annotated[int, Meta(ge=1)]
Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Percent = Annotated[float, Meta(ge=0, le=100)]
Share = Annotated[float, Meta(gt=0, le=1)]
Perplexity = Annotated[float, Meta(ge=1)]
Momentum = Annotated[float, Meta(ge=0, lt=1)]


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
    return {name: one for name, one in settings.items() if exchange in _USERS.get(name, {exchange})}


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
