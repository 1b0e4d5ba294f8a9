"""Training in frameworks other than PyTorch: JAX and TensorFlow, on CPUs."""

from importlib import import_module
from typing import Protocol, cast

from mlbench import MLBenchError
from mlbench.benchmarks.options import Options
from mlbench.benchmarks.task_options import Framework, framework_of
from mlbench.contract.distribution import how_to_install
from mlbench_worker.frameworks.compiled import Compile


class FrameworkError(MLBenchError):
    """A framework is not installed."""


class _Binding(Protocol):
    """The interface of the module for a framework."""

    VERSION: str
    compiled: Compile


def load(framework: Framework) -> _Binding:
    """Import a framework other than PyTorch.

    Raises:
        FrameworkError: it is not installed.
    """
    try:
        return cast("_Binding", import_module(f"mlbench_worker.frameworks.with_{framework}"))
    except ImportError as error:
        raise FrameworkError(
            f"framework {framework} cannot be imported here ({error}): {how_to_install(framework)}"
        ) from error


def versions(config: Options) -> dict[str, str]:
    """Return the version of the framework, to record; empty for PyTorch."""
    framework = framework_of(config)
    return {} if framework == "torch" else {framework: load(framework).VERSION}
