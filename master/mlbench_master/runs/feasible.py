"""Whether a pool can give what a request asks for, and its task can be run so."""

from importlib.util import find_spec

from mlbench.benchmarks.options import OptionError, read
from mlbench.benchmarks.registry import Benchmark
from mlbench.contract import faults
from mlbench.contract.distribution import how_to_install
from mlbench.contract.names import THIS_MACHINE
from mlbench.contract.runspec import IMPAIRMENTS
from mlbench_master.errors import BadFieldError
from mlbench_master.runs.requests import CUSTOM_BACKEND, RunRequest
from mlbench_master.settings import Limits

# The least share of a core that Linux gives out, and the least rate that training can live with.
_LEAST_CPUS = 0.01
_LEAST_BANDWIDTH = 0.1
_OF_PYTORCH = frozenset({"gloo", "mpi", "nccl"})


def check_feasible(order: RunRequest, limits: Limits) -> None:
    """Make sure that the pool can give what an order asks for.

    Raises:
        BadFieldError: it cannot (400).
    """
    check_workers(order.num_workers, limits)
    if order.num_cpus is not None:
        _check_cpus(order.num_cpus, limits)
    if wanted := order.wanted_bandwidth(limits):
        _check_bandwidth(wanted, limits)
    for name in IMPAIRMENTS:
        if limits.no_latency and getattr(order, name) is not None:
            raise BadFieldError(name, f"{limits.no_latency}. Leave out {name}.")
    if order.custom_image_name is not None:
        _check_image(order.custom_image_name, limits)
    if order.faults:
        _check_faults(order, order.faults, limits)
    if order.gpu_enabled and not limits.gpus:
        raise BadFieldError("gpu_enabled", "workers here have no GPU. Leave out gpu_enabled.")
    _check_backend(order, limits)
    if order.task is not None:
        _check_task(order, order.task)
        _check_framework(order.framework, limits)
        _check_device(order, limits)


def check_workers(wanted: int, limits: Limits) -> None:
    """Make sure that a run may have so many workers, or raise a BadFieldError (400)."""
    if wanted > limits.workers:
        problem = f"must be at most {limits.workers} (got {wanted})"
        raise BadFieldError("num_workers", f"{problem}. Raise MLBENCH_LIMIT_WORKERS for more.")


def _check_image(image: str, limits: Limits) -> None:
    problem = ""
    if image == THIS_MACHINE and limits.pool == "kubernetes":
        problem = (
            f"workers in a cluster do not have your files (got {image}). Name an image that "
            "contains your code (--image)."
        )
    elif image != THIS_MACHINE and limits.pool == "local":
        problem = (
            f"local workers cannot run images (got {image}). Use a cluster, or name the image "
            f"{THIS_MACHINE} to run the command on this machine itself."
        )
    if problem:
        raise BadFieldError("custom_image_name", problem)


def _check_cpus(wanted: float, limits: Limits) -> None:
    problem = ""
    if limits.pool == "local" and not wanted.is_integer():
        problem = "must be a whole number of cores"
    elif wanted < _LEAST_CPUS:
        problem = f"must be at least {_LEAST_CPUS:g} cores"
    elif wanted > limits.cpus:
        problem = f"must be at most {limits.cpus:g} cores"
    if problem:
        raise BadFieldError("num_cpus", f"{problem} (got {wanted:g})")


def _check_bandwidth(wanted: float, limits: Limits) -> None:
    problem = ""
    if limits.no_bandwidth:
        problem = f"{limits.no_bandwidth}. Leave out max_bandwidth."
    elif wanted < _LEAST_BANDWIDTH:
        problem = f"must be at least {_LEAST_BANDWIDTH:g} Mbit/s (got {wanted:g})"
    elif limits.bandwidth and wanted > limits.bandwidth:
        problem = f"must be at most {limits.bandwidth:g} Mbit/s (got {wanted:g})"
    if problem:
        raise BadFieldError("max_bandwidth", problem)


def _check_faults(order: RunRequest, text: str, limits: Limits) -> None:
    impaired = any(getattr(order, name) for name in IMPAIRMENTS)
    network = impaired or bool(order.wanted_bandwidth(limits))
    for one in faults.parse(text):
        in_cluster = limits.pool == "kubernetes"
        if why := faults.why_refused(one.kind, in_cluster=in_cluster, has_network=network):
            raise BadFieldError("faults", why)


def _check_task(order: RunRequest, task: Benchmark) -> None:
    if order.num_workers < task.least_workers:
        right = f"must be at least {task.least_workers} for {task.name} (got {order.num_workers})"
        raise BadFieldError("num_workers", right)
    if order.light_target and not task.light_args:
        raise BadFieldError(
            "light_target", f"{task.name} has no light target. Leave out light_target."
        )
    if order.seed is not None and not task.seeded:
        raise BadFieldError("seed", f"{task.name} does not take a seed. Leave out seed.")
    if order.gpu_enabled and not task.on_gpu:
        raise BadFieldError("gpu_enabled", f"{task.name} does not use GPUs. Leave out gpu_enabled.")
    for who, stated in order.stated_args.items():
        for key, value in stated.items():
            given = order.args.get(key, value)
            if given != value:
                right = f"{who} implies {value} (got {given}). Leave out one of the two."
                raise BadFieldError(f"args.{key}", right)
    try:
        read(task.options, order.all_args)
    except OptionError as error:
        raise BadFieldError(f"args.{error.option}", error.problem) from None


def _check_framework(framework: str, limits: Limits) -> None:
    if framework == "torch":
        return
    problem = ""
    if limits.pool == "kubernetes" and framework not in limits.framework_images:
        image = f"--set worker.frameworkImages.{framework}=IMAGE"
        problem = f"the chart has no image for {framework}. Install it with {image}."
    elif limits.pool == "local" and not find_spec(framework):  # workers run in our own Python
        problem = f"{framework} is not installed here. Install with {how_to_install(framework)}."
    if problem:
        raise BadFieldError("args.framework", problem)


def _check_device(order: RunRequest, limits: Limits) -> None:
    # In a cluster, a worker has GPUs only where the order asks for them.
    has_gpu = limits.gpus and (order.gpu_enabled or limits.pool == "local")
    if order.all_args.get("device") == "cuda" and not has_gpu:
        raise BadFieldError(
            "args.device", f"cuda requires GPUs. {_how_to_have_gpus(limits, 'cpu')}"
        )


def _how_to_have_gpus(limits: Limits, instead: str) -> str:
    if limits.gpus:
        return "Also set gpu_enabled=true."
    return f"Workers here have no GPU, so use {instead}."


def _check_backend(order: RunRequest, limits: Limits) -> None:
    wanted, task = order.backend_name, order.task
    if task is None:
        is_named = order.backend not in {None, CUSTOM_BACKEND}
        if is_named and wanted in _OF_PYTORCH.difference(limits.backends):
            raise BadFieldError(
                "backend",
                f"PyTorch supports {', '.join(limits.backends)} here (got {wanted}), according to "
                "$MLBENCH_BACKENDS of the master. If your command brings another backend, name it "
                "as custom_backend.",
            )
        return
    possible = task.backends_among(limits.backends) or ("gloo",)
    if wanted not in possible:
        raise BadFieldError(
            "backend", f"{task.name} supports {', '.join(possible)} here (got {wanted})"
        )
    if wanted == "nccl" and not order.gpu_enabled:
        raise BadFieldError("backend", f"nccl requires GPUs. {_how_to_have_gpus(limits, 'gloo')}")
