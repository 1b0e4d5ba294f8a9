"""Options of each benchmark, which a run may set and its task module uses."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from mlbench.benchmarks.options import FREE, Options, ruled
from mlbench.benchmarks.task_options import (
    AccuracyOptions,
    BackendOptions,
    Count,
    DeviceOptions,
    ExchangeOptions,
    FrameworkOptions,
    ImageModelOptions,
    ModelOptions,
    Momentum,
    MomentumOptions,
    NotNegative,
    Percent,
    Perplexity,
    PerplexityOptions,
    Positive,
)
from mlbench.contract.fields import Field

DigitsRecipe = Literal["standard", "tuned"]
CifarRecipe = Literal["he-2015", "mlbench-2020", "one-cycle"]
CifarVersion = Literal[1, 2]
CifarDepth = Literal[20, 32, 44, 56]
LinearModel = Literal["logistic", "ridge", "svm"]
TextDataset = Literal["sotu", "wikitext-2"]
LstmSize = Literal["small", "full"]

CIFAR10_SHA256 = "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce"
"""SHA-256 of CIFAR-10's archive."""
SOTU_SHA256 = "074bba9165be86814ad1e9793e862cf60cfd98eb5e658b93e0c03cf8ac449b36"
"""SHA-256 of the addresses on the State of the Union, concatenated."""
OPERATIONS = ("all_reduce", "broadcast", "all_gather")
"""Operations that the benchmark ``communication`` measures."""
DTYPES = ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64")
"""Types of its values, by PyTorch's names."""
MIN_ROUNDS = 5
"""Minimum number of rounds for each message size, however long they take."""
TRAIN_DIGITS = 1433
"""Number of handwritten digits in the training data."""

# Options that a recipe of CIFAR-10 implies.
_OF_RECIPE: dict[str, dict[str, Any]] = {
    "mlbench-2020": {"learning_rate": 0.02},
    "one-cycle": {"learning_rate": 0.2, "epochs": 8},
}
# Best learning rate and momentum for each exchange, from a search (docs/benchmarks.md).
_TUNED: dict[str, tuple[float, float]] = {
    "ddp": (0.02, 0.9),
    "local-sgd": (0.02, 0.9),
    "decentralized": (0.02, 0.9),
    "choco": (0.02, 0.9),
    "signsgd": (0.1, 0.0),
    "topk": (0.1, 0.0),
    "powersgd": (0.01, 0.9),
    "qsgd": (0.02, 0.9),
}
# Options that the size of an AWD-LSTM implies.
_OF_SIZE = ("goal", "epochs", "batch_size")
# PyTorch has no MPI type for these.
_NOT_WITH_MPI = {"float16", "bfloat16"}


@dataclass(frozen=True)
class Cifar10Options(
    MomentumOptions, ImageModelOptions, ExchangeOptions, FrameworkOptions, BackendOptions
):
    """Train a ResNet on CIFAR-10."""

    recipe: Annotated[CifarRecipe, ruled("mlbench-2020", "one-cycle")] = "he-2015"
    """Learning rates: He et al. 2015, MLBench's task of 2020, or one cycle up and down."""
    version: Annotated[CifarVersion, ruled(2)] = 1
    """Version of ResNet: 1 (2015), or 2 (2016, norm and activation before each convolution)."""
    depth: Annotated[CifarDepth, ruled(32, 44, 56)] = 20
    """Number of layers."""
    goal: Annotated[Percent, ruled(70.0)] = 80.0
    epochs: Count = 164
    worker_batch_size: Count = 128
    """Number of images per worker in a step."""
    learning_rate: Positive = 0.1
    """Step size for 128 images (mlbench-2020: 0.02, one-cycle: 0.2); in proportion for others."""
    switch_epoch: Annotated[Count, FREE] = 82

    @classmethod
    def implied(cls, requested: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options that a recipe implies."""
        return _OF_RECIPE.get(requested.get("recipe", ""), {})


@dataclass(frozen=True)
class ImagenetOptions(MomentumOptions, ImageModelOptions, ExchangeOptions, BackendOptions):
    """Train ResNet-50 on ImageNet."""

    goal: Annotated[Percent, ruled(70.0)] = 75.9
    epochs: Count = 90
    worker_batch_size: Count = 32
    """Number of images per worker in a step: more workers make a larger step."""
    learning_rate: Positive = 0.1
    """Step size of the optimizer for 256 images in a step; in proportion for more or fewer."""
    # Nesterov momentum has no meaning without momentum.
    momentum: Annotated[float, Field(gt=0, lt=1)] = 0.9
    """Share of the last update that the next one keeps (Nesterov)."""
    weight_decay: NotNegative = 1e-4
    """Weight decay of all parameters except biases and batch norm."""
    # The network halves the size five times, and a pixel must remain.
    image_size: Annotated[int, Field(ge=32)] = 224
    """Width and height to which images are scaled, in pixels."""
    switch_epoch: Annotated[Count, FREE] = 30
    loaders: Annotated[int, Field(ge=0), FREE] = 8
    """Processes of each worker that load images, at most one for each of its cores; 0: none."""


@dataclass(frozen=True)
class LinearOptions(AccuracyOptions, DeviceOptions, FrameworkOptions, BackendOptions):
    """Train a linear model on a data set in LIBSVM's format."""

    model: LinearModel = "logistic"
    """Logistic regression, linear regression (ridge), or a linear support vector machine (svm)."""
    dataset: Annotated[str, ruled("rcv1")] = "epsilon"
    """Name of the data set: epsilon, rcv1, or a file NAME (with NAME.t for validation)."""
    goal: Annotated[Percent, ruled(80.0)] = 89.0
    """Validation accuracy in percent at which the training ends; ridge trains all the epochs."""
    epochs: Count = 20
    batch_size: Count = 100
    """Number of rows in a step of all workers, which share them."""
    learning_rate: Positive = 4.0
    """Step size at the start, in units of 1 / L: L is the smoothness of the loss of one row."""
    decay: Annotated[float, Field(ge=0, le=1)] = 0.5
    """The step size falls with (1 + epochs done) to this power, step by step; 0: constant."""
    momentum: Momentum = 0.0
    """Share of the last update that the next one keeps (Nesterov)."""
    l2: NotNegative = 1e-6
    """Weight of the penalty |w|² / 2 that is added to the mean loss."""
    record_every: Count = 25
    """Number of steps per recorded loss, which is their mean."""

    def _rules(self) -> dict[str, bool]:
        return super()._rules() | {
            "dataset must be the name of a data set": bool(self.dataset),
            "momentum needs framework=torch": not self.momentum or self.framework == "torch",
        }


@dataclass(frozen=True)
class _TextOptions(PerplexityOptions, ModelOptions, ExchangeOptions, BackendOptions):
    batch_size: Count = 32
    """Number of rows of text in a step of all workers, which share them."""


@dataclass(frozen=True)
class LstmOptions(_TextOptions):
    """Train an AWD-LSTM on the words of a text."""

    dataset: TextDataset = "sotu"
    """The addresses on the State of the Union (sotu), or WikiText-2."""
    size: LstmSize = "small"
    """Size of the model: small, for a laptop, or full, as in the paper."""
    goal: Annotated[Perplexity, ruled(150.0)] = 120.0
    epochs: Count = 10
    batch_size: Count = 20
    learning_rate: Positive = 30.0
    """Step size for sequences of 70 words; scaled in proportion for other lengths."""

    @classmethod
    def implied(cls, requested: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options that a size implies."""
        of_size = {"small": LstmOptions(), "full": WikiText2Options()}.get(
            requested.get("size", "")
        )
        return {name: vars(of_size)[name] for name in _OF_SIZE} if of_size else {}


@dataclass(frozen=True)
class WikiText2Options(LstmOptions):
    """Train an AWD-LSTM on WikiText-2."""

    dataset: TextDataset = "wikitext-2"
    size: LstmSize = "full"
    goal: Annotated[Perplexity, ruled(90.0)] = 70.0
    epochs: Count = 750
    batch_size: Count = 80


@dataclass(frozen=True)
class GptOptions(_TextOptions):
    """Train a small Transformer on the bytes of the addresses on the State of the Union."""

    goal: Annotated[Perplexity, ruled(8.0)] = 6.0
    epochs: Count = 20
    learning_rate: Positive = 3e-3
    """Maximum step size, reached after 100 steps; it falls to a tenth until the end."""


@dataclass(frozen=True)
class CommunicationOptions(BackendOptions):
    """Measure latency and bandwidth of the communication between workers."""

    device: Annotated[Literal["auto", "cpu", "cuda"], FREE] = "auto"
    """Device whose memory holds the messages: auto is the GPU with nccl, else the CPU."""
    operations: Annotated[str, FREE] = "all_reduce,broadcast,all_gather"
    """Operations to measure, separated by commas."""
    dtypes: Annotated[str, FREE] = "float32"
    """Types of the values, separated by commas: float16, bfloat16, int8 and so on."""
    min_bytes: Annotated[Count, FREE] = 4
    """Size of the smallest message in bytes."""
    max_bytes: Annotated[int, FREE] = 256 << 20
    """Size of the largest message in bytes."""
    factor: Annotated[int, Field(ge=2), FREE] = 2
    """Factor between one message size and the next."""
    seconds: NotNegative = 0.5
    """Approximate time per message size; there are at least 5 rounds."""
    rounds: Annotated[int, Field(ge=MIN_ROUNDS)] = 1000
    """Maximum number of rounds per message size."""
    warmup: Count = 5
    """Number of warmup rounds, which do not count."""
    check: bool = True
    """Whether each size has a round of known values whose result is checked."""

    def _rules(self) -> dict[str, bool]:
        dtypes, operations = {*self.dtypes.split(",")}, {*self.operations.split(",")}
        return super()._rules() | {
            f"operations must be among {', '.join(OPERATIONS)}": operations <= {*OPERATIONS},
            f"dtypes must be among {', '.join(DTYPES)}": dtypes <= {*DTYPES},
            f"dtypes with mpi must not be {' or '.join(sorted(_NOT_WITH_MPI))}": (
                self.backend != "mpi" or not _NOT_WITH_MPI & dtypes
            ),
            "device must be cuda, or auto, with nccl": (
                self.backend != "nccl" or self.device != "cpu"
            ),
            "max_bytes must be at least min_bytes": self.max_bytes >= self.min_bytes,
        }


@dataclass(frozen=True)
class _DigitsBatches(Options):
    batch_size: Annotated[int, Field(ge=1, le=TRAIN_DIGITS)] = 128
    """Number of images in a step of all workers, which share them."""


@dataclass(frozen=True)
class DigitsOptions(
    _DigitsBatches,
    MomentumOptions,
    ImageModelOptions,
    ExchangeOptions,
    FrameworkOptions,
    BackendOptions,
):
    """Train a small ResNet on handwritten digits."""

    recipe: DigitsRecipe = "standard"
    """Learning rate and momentum: the standard ones, or tuned for the exchange."""
    goal: Annotated[Percent, ruled(90.0)] = 97.0
    epochs: Count = 30
    learning_rate: Positive = 0.05
    """Step size of the optimizer, constant."""
    weight_decay: NotNegative = 5e-4

    @classmethod
    def implied(cls, requested: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options that the tuned recipe implies for an exchange."""
        tuned = (
            _TUNED.get(requested.get("exchange", "ddp"))
            if requested.get("recipe") == "tuned"
            else None
        )
        return dict(zip(("learning_rate", "momentum"), tuned, strict=True)) if tuned else {}


@dataclass(frozen=True)
class DigitsLinearOptions(_DigitsBatches, AccuracyOptions, FrameworkOptions, BackendOptions):
    """Train a linear model on handwritten digits."""

    goal: Annotated[Percent, ruled(85.0)] = 93.0
    epochs: Count = 30
    learning_rate: Positive = 0.5
    """Step size, constant."""
    l2: NotNegative = 1e-4
    """Weight of the penalty |w|² / 2 that is added to the mean loss."""


@dataclass(frozen=True)
class StepsOptions(Options):
    """Record the steps of a simulated training."""

    steps: Annotated[Count, FREE] = 1000
    """Steps to record."""
    rate: Annotated[Positive, FREE] = 200.0
    """Number of steps per second."""
