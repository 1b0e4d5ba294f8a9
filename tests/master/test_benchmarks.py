"""The registry of benchmarks: each entry says what its module really takes."""

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from master.benchmarks import BENCHMARKS, IMAGES, Benchmark, find_image

# Each line of stdin is a module with arguments. Prints its exit code and output for each. In one
# process, as PyTorch takes seconds to be imported.
_RUN_ALL = """
import contextlib, io, json, runpy, sys
for line in sys.stdin:
    module, *sys.argv[1:] = json.loads(line)
    sys.modules.pop(module, None)
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as exited:
        code = exited.code
    except Exception as error:
        code = repr(error)
    print(json.dumps([code, out.getvalue()]))
"""


@dataclass(frozen=True)
class Help:
    """What a benchmark's module answers to its arguments and ``--help``."""

    code: Any
    text: str

    @property
    def options(self) -> dict[str, str]:
        """The choices of each option, such as ``gloo,nccl``; empty where it has none."""
        return dict(re.findall(r"^  --([a-z-]+) (?:\{([^}]*)\})?", self.text, re.MULTILINE))


def arguments(benchmark: Benchmark) -> dict[str, str]:
    """Return all arguments that an order may make of a benchmark's entry."""
    return {
        **benchmark.args,
        **benchmark.light_args,
        **({"seed": "7"} if benchmark.seeded else {}),
        **({"backend": benchmark.backends[-1]} if benchmark.backends else {}),
        **({"device": "cuda"} if benchmark.on_gpu else {}),
    }


@pytest.fixture(scope="module")
def helps() -> dict[str, Help]:
    calls = [
        [one.module, *(f"--{key}={value}" for key, value in arguments(one).items()), "--help"]
        for one in BENCHMARKS.values()
    ]
    done = subprocess.run(
        [sys.executable, "-c", _RUN_ALL],
        input="\n".join(map(json.dumps, calls)),
        capture_output=True,
        check=True,
        text=True,
    )
    found = [Help(*json.loads(line)) for line in done.stdout.splitlines()]
    return dict(zip(BENCHMARKS, found, strict=True))


@pytest.mark.parametrize("benchmark", BENCHMARKS.values(), ids=list(BENCHMARKS))
def test_a_module_takes_what_its_entry_says(benchmark: Benchmark, helps: dict[str, Help]) -> None:
    found = helps[benchmark.name]
    assert found.code == 0, found.text
    assert arguments(benchmark).keys() <= found.options.keys()
    assert ("seed" in found.options) == benchmark.seeded
    assert ("device" in found.options) == benchmark.on_gpu
    assert ("backend" in found.options) == bool(benchmark.backends)
    assert set(benchmark.backends) <= set(found.options.get("backend", "").split(","))
    # Only there do tensors lie where nccl takes them.
    assert ("nccl" in benchmark.backends) == benchmark.on_gpu


def test_images_stand_for_benchmarks(helps: dict[str, Help]) -> None:
    for name, image in IMAGES.items():
        for tag in ("", ":latest", ":v2.1.0"):
            assert find_image(name + tag) == image
        options = helps[image.benchmark].options
        for key, value in image.args.items():
            assert value in options[key].split(",")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "digits",
        "custom_image",
        "mlbench/pytorch-wikitext2-lstm-all-reduce:latest",
        "pytorch-backend-benchmark",
        "mlbench/pytorch-backend-benchmark@latest",
        "mlbench/pytorch-backend-benchmark:",
        "docker.io/mlbench/pytorch-backend-benchmark",
    ],
)
def test_other_images_stand_for_nothing(name: str) -> None:
    assert find_image(name) is None
