"""Validation of requests against the limits of the pool and of the benchmark."""

from importlib.util import find_spec

from mlbench.benchmarks.benchmark import Benchmark
from mlbench.benchmarks.options import OptionError, read
from mlbench.contract import faults
from mlbench.contract.distribution import how_to_install
from mlbench.contract.names import THIS_MACHINE
from mlbench.contract.runspec import IMPAIRMENTS
from mlbench_master.errors import BadFieldError
from mlbench_master.runs.requests import CUSTOM_BACKEND, RunRequest
from mlbench_master.settings import InstallationLimits

_MIN_CPUS = 0.01
"""Smallest share of a core that Linux can allocate."""
_MIN_BANDWIDTH = 0.1
"""Smallest bandwidth in Mbit/s with which training still works."""


def validate_against_limits(order: RunRequest, limits: InstallationLimits) -> None:
    """Check that the pool can fulfil a request.

    Raises:
        BadFieldError: a field exceeds the limits of the pool or of the benchmark (400).
    """
    check_workers(order.num_workers, limits)
    _check_resources(order, limits)
    for name in IMPAIRMENTS:
        if limits.no_latency and getattr(order, name) is not None:
            raise BadFieldError(name, f"{limits.no_latency}. Leave out this setting.")
    image = order.custom_image_name
    if image == THIS_MACHINE and limits.pool == "kubernetes":
        raise BadFieldError(
            "custom_image_name",
            f"workers in a cluster do not have your files (got {image}). Name an image that "
            "contains your code (--image).",
        )
    if image not in (None, THIS_MACHINE) and limits.pool == "local":
        raise BadFieldError(
            "custom_image_name",
            f"local workers cannot run images (got {image}). Use a cluster, or name the image "
            f"{THIS_MACHINE} to run the command on this machine itself.",
        )
    if order.faults:
        impaired = any(getattr(order, name) for name in IMPAIRMENTS)
        for fault in faults.parse(order.faults):
            problem = faults.why_refused(
                fault.kind,
                in_cluster=limits.pool == "kubernetes",
                has_network=impaired or bool(order.wanted_bandwidth(limits)),
            )
            if problem:
                raise BadFieldError("faults", problem)
    _check_backend(order, limits)
    if order.task is not None:
        _check_task(order, order.task, limits)


def check_workers(num_workers: int, limits: InstallationLimits) -> None:
    """Check that a run may have this many workers, or raise a BadFieldError (400)."""
    if num_workers > limits.workers:
        problem = f"must be at most {limits.workers} (got {num_workers})"
        raise BadFieldError("num_workers", f"{problem}. Raise MLBENCH_LIMIT_WORKERS for more.")


def _check_resources(order: RunRequest, limits: InstallationLimits) -> None:
    cores, bandwidth = order.num_cpus, order.wanted_bandwidth(limits)
    if cores is not None:
        problem = ""
        if limits.pool == "local" and not cores.is_integer():
            problem = "must be a whole number of cores"
        elif cores < _MIN_CPUS:
            problem = f"must be at least {_MIN_CPUS:g} cores"
        elif cores > limits.cpus:
            problem = f"must be at most {limits.cpus:g} cores"
        if problem:
            raise BadFieldError("num_cpus", f"{problem} (got {cores:g})")
    if bandwidth:
        problem = ""
        if limits.no_bandwidth:
            problem = f"{limits.no_bandwidth}. Leave out this setting."
        elif bandwidth < _MIN_BANDWIDTH:
            problem = f"must be at least {_MIN_BANDWIDTH:g} Mbit/s (got {bandwidth:g})"
        elif limits.bandwidth and bandwidth > limits.bandwidth:
            problem = f"must be at most {limits.bandwidth:g} Mbit/s (got {bandwidth:g})"
        if problem:
            raise BadFieldError("max_bandwidth", problem)
    if order.gpu_enabled and not limits.gpus:
        raise BadFieldError("gpu_enabled", "workers here have no GPU. Leave out this setting.")


def _check_task(order: RunRequest, task: Benchmark, limits: InstallationLimits) -> None:
    if order.num_workers < task.least_workers:
        problem = f"must be at least {task.least_workers} for {task.name} (got {order.num_workers})"
        raise BadFieldError("num_workers", problem)
    for field, is_wrong, reason in (
        ("light_target", order.light_target and not task.light_args, "has no light target"),
        ("seed", order.seed is not None and not task.seeded, "does not take a seed"),
        ("gpu_enabled", order.gpu_enabled and not task.on_gpu, "does not use GPUs"),
    ):
        if is_wrong:
            raise BadFieldError(field, f"{task.name} {reason}. Leave out this setting.")
    for field, implied in order.stated_args.items():
        for key, value in implied.items():
            arg = order.args.get(key, value)
            if arg != value:
                problem = f"{field} implies {value} (got {arg}). Leave out one of the two."
                raise BadFieldError(f"args.{key}", problem)
    try:
        read(task.options, order.all_args)
    except OptionError as error:
        raise BadFieldError(f"args.{error.option}", error.problem) from None
    framework, problem = order.framework, ""
    if framework != "torch" and limits.pool == "kubernetes":
        if framework not in limits.framework_images:
            image = f"--set worker.frameworkImages.{framework}=IMAGE"
            problem = f"the chart has no image for {framework}. Install it with {image}."
    elif framework != "torch" and not find_spec(framework):
        # Local workers run in the master's Python.
        problem = f"{framework} is not installed here. Install with {how_to_install(framework)}."
    if problem:
        raise BadFieldError("args.framework", problem)
    # In a cluster, workers have GPUs only if the request asks for them.
    has_gpu = limits.gpus and (order.gpu_enabled or limits.pool == "local")
    if order.all_args.get("device") == "cuda" and not has_gpu:
        raise BadFieldError("args.device", f"cuda requires GPUs. {_gpu_advice(limits, 'cpu')}")


def _gpu_advice(limits: InstallationLimits, instead: str) -> str:
    if limits.gpus:
        return "Also set gpu_enabled=true."
    return f"Workers here have no GPU, so use {instead}."


def _check_backend(order: RunRequest, limits: InstallationLimits) -> None:
    backend, task = order.backend_name, order.task
    if task is None:
        is_named = order.backend not in {None, CUSTOM_BACKEND}
        if is_named and backend in {"gloo", "mpi", "nccl"}.difference(limits.backends):
            raise BadFieldError(
                "backend",
                f"PyTorch supports {', '.join(limits.backends)} here (got {backend}), according to "
                "$MLBENCH_BACKENDS of the master. If your command brings another backend, name it "
                "as custom_backend.",
            )
        return
    possible = task.backends_among(limits.backends) or ("gloo",)
    if backend not in possible:
        raise BadFieldError(
            "backend", f"{task.name} supports {', '.join(possible)} here (got {backend})"
        )
    if backend == "nccl" and not order.gpu_enabled:
        raise BadFieldError("backend", f"nccl requires GPUs. {_gpu_advice(limits, 'gloo')}")
