"""Where and how to compute: what this machine cannot do is refused, the rest is set up and told."""

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
import torch
from torch import nn

from worker.training.device import DeviceError, DeviceOptions, prepare
from worker.training.distributed import World

without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
_CPU = DeviceOptions(device="cpu")


def make_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 4)
    )


@without_gpu
def test_auto_takes_what_there_is() -> None:
    assert prepare(DeviceOptions(), World()).device == torch.device("cpu")


@without_gpu
def test_a_gpu_that_is_not_there_is_refused() -> None:
    with pytest.raises(DeviceError, match="device cuda: there is no GPU here"):
        prepare(DeviceOptions(device="cuda"), World())


@pytest.mark.parametrize("precision", ["tf32", "fp16"])
def test_what_only_gpus_can_is_refused_on_a_cpu(precision: Literal["tf32", "fp16"]) -> None:
    with pytest.raises(DeviceError, match=f"precision {precision}: only GPUs have it"):
        prepare(replace(_CPU, precision=precision), World())


def test_compiling_without_a_compiler_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DeviceError, match="it needs a C\\+\\+ compiler, and there is no g\\+\\+"):
        prepare(replace(_CPU, compile=True), World())


@pytest.mark.parametrize("channels_last", [True, False])
def test_model_and_images_get_the_memory_format(channels_last: bool) -> None:
    execution = prepare(replace(_CPU, channels_last=channels_last), World())
    wanted = torch.channels_last if channels_last else torch.contiguous_format
    images = execution.images(torch.rand(2, 3, 8, 8))
    model = execution.place(make_model())
    assert images.is_contiguous(memory_format=wanted)
    assert next(model.parameters()).is_contiguous(memory_format=wanted)


def test_the_memory_format_changes_no_number() -> None:
    images = torch.rand(4, 3, 8, 8)
    answers = []
    for channels_last in (True, False):
        execution = prepare(replace(_CPU, channels_last=channels_last), World())
        answers.append(execution.place(make_model())(execution.images(images)))
    one, other = answers
    assert torch.allclose(one, other, atol=1e-5)


@pytest.mark.parametrize(
    ("precision", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16)]
)
def test_the_forward_pass_has_the_precision_and_the_parameters_stay(
    precision: Literal["fp32", "bf16"], dtype: torch.dtype
) -> None:
    execution = prepare(replace(_CPU, precision=precision), World())
    model = execution.place(make_model())
    with execution.autocast():
        answer = model(torch.rand(2, 3, 8, 8))
    assert answer.dtype == dtype
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert not execution.make_scaler().is_enabled()


# In a process of its own: torch.compile warns of what PyTorch itself has deprecated.
_COMPILE = """
import torch
from torch import nn
from worker.training.device import DeviceOptions, prepare
from worker.training.distributed import World
execution = prepare(DeviceOptions(device="cpu", compile=True), World())
model = nn.Sequential(nn.Flatten(), nn.Linear(12, 3), nn.ReLU())
images = torch.rand(4, 3, 2, 2)
translated = execution.compiled(model)
print(translated is model, torch.allclose(translated(images), model(images), atol=1e-6))
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs g++")
def test_a_compiled_model_answers_the_same() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _COMPILE], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False True\n"


def test_not_compiled_it_stays_itself() -> None:
    model = make_model()
    assert prepare(_CPU, World()).compiled(model) is model


def test_it_says_what_it_runs_on() -> None:
    assert prepare(_CPU, World()).describe() == {
        "device": "cpu",
        "device_name": "cpu",
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
