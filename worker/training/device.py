"""Where and how a model is computed: device, precision, memory format, compilation."""

import os
import shutil
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from mlbench import MLBenchError
from worker.training.distributed import World, gpu_of
from worker.training.memory import keep_freed_memory
from worker.training.options import Options

_AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


class DeviceError(MLBenchError):
    """This machine cannot compute as asked."""


@dataclass(frozen=True)
class DeviceOptions(Options):
    """Where and how the model is computed."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute: auto is the GPU if there is one."""
    precision: Literal["fp32", "tf32", "bf16", "fp16"] = "fp32"
    """Number format of products; the parameters stay fp32. tf32 and fp16 are for GPUs."""
    channels_last: bool = True
    """Whether images lie in memory pixel by pixel, which is faster, or channel by channel."""
    compile: bool = False
    """Whether torch.compile translates the model first, which takes up to a minute."""


@dataclass(frozen=True)
class Execution:
    """How this rank computes. Made by ``prepare``."""

    device: torch.device
    options: DeviceOptions

    def place(self, model: nn.Module) -> nn.Module:
        """Move a model onto the device, in the memory format."""
        placed: nn.Module = model.to(self.device, memory_format=self._format)  # type: ignore[call-overload]
        return placed

    def images(self, images: torch.Tensor) -> torch.Tensor:
        """Return images ``[n, channels, height, width]`` on the device, in the memory format."""
        return images.to(device=self.device, memory_format=self._format, non_blocking=True)

    def autocast(self) -> AbstractContextManager[object]:
        """Return a context in which the forward pass is computed in the precision."""
        dtype = _AUTOCAST.get(self.options.precision)
        return torch.autocast(self.device.type, dtype, enabled=dtype is not None)

    def compiled(self, model: nn.Module) -> nn.Module:
        """Return the model, translated by torch.compile if that is wanted."""
        if not self.options.compile:
            return model
        translated: nn.Module = torch.compile(model)  # type: ignore[assignment]
        return translated

    def make_scaler(self) -> torch.amp.GradScaler:
        """Return what keeps the small gradients of fp16 from vanishing; idle otherwise."""
        return torch.amp.GradScaler(self.device.type, enabled=self.options.precision == "fp16")

    def synchronize(self) -> None:
        """Wait until the device has done all it was given, so that a clock tells the truth."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def describe(self) -> dict[str, str | int]:
        """Return what it runs on, for the run to record."""
        name = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "cpu"
        return {
            "device": self.device.type,
            "device_name": name,
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
        }

    @property
    def _format(self) -> torch.memory_format:
        return torch.channels_last if self.options.channels_last else torch.contiguous_format


def prepare(options: DeviceOptions, world: World) -> Execution:
    """Set up this process to compute as asked.

    Raises:
        DeviceError: there is no such device, or it cannot do that.
    """
    device = _device(options, world)
    if device.type == "cpu" and options.precision in ("tf32", "fp16"):
        raise DeviceError(
            f"precision {options.precision}: only GPUs have it; on a CPU use fp32 or bf16"
        )
    if options.compile and device.type == "cpu" and not shutil.which(_cxx()):
        raise DeviceError(f"compile: it needs a C++ compiler, and there is no {_cxx()} on the path")
    keep_freed_memory()
    # PyTorch's own default is tf32 for convolutions: a run that says fp32 shall be fp32.
    wanted = "tf32" if options.precision == "tf32" else "ieee"
    if device.type == "cuda":
        torch.cuda.set_device(device)
        torch.backends.cudnn.conv.fp32_precision = wanted  # type: ignore[attr-defined]
        torch.backends.cuda.matmul.fp32_precision = wanted
    return Execution(device, options)


def _device(options: DeviceOptions, world: World) -> torch.device:
    if options.device == "cpu" or (options.device == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise DeviceError("device cuda: there is no GPU here that this PyTorch can use; use cpu")
    return gpu_of(world)


def _cxx() -> str:
    """Return the compiler that torch.compile takes for a CPU."""
    return os.environ.get("CXX", "g++")
