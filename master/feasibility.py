"""Whether an order can be carried out: by the pool, and by the task that it names."""

from master.benchmarks import Benchmark
from master.errors import BadFieldError
from master.orders import RunOrder
from master.settings import Limits
from mlbench.names import THIS_MACHINE

# The least share of a core that Linux gives out, and the least rate that training can live with.
_LEAST_CPUS = 0.01
_LEAST_BANDWIDTH = 0.1


def check(order: RunOrder, limits: Limits) -> None:
    """Make sure that the pool can give what an order asks for.

    Raises:
        BadFieldError: it cannot (400).
    """
    if order.num_workers > limits.workers:
        raise BadFieldError("num_workers", f"at most {limits.workers} (not {order.num_workers})")
    if order.num_cpus is not None:
        _check_cpus(order.num_cpus, limits)
    if wanted := order.wanted_bandwidth(limits):
        _check_bandwidth(wanted, limits)
    if order.custom_image_name == THIS_MACHINE and limits.pool == "kubernetes":
        raise BadFieldError(
            "custom_image_name",
            "the workers are in a cluster, where no file of yours is: name an image that has your "
            "code (--image)",
        )
    if order.gpu_enabled and not limits.gpus:
        raise BadFieldError("gpu_enabled", "workers here have no GPU; leave it out")
    if order.task is not None:
        _check_task(order, order.task)
        _check_backend(order, order.task, limits)
        _check_args(order)


def _check_cpus(wanted: float, limits: Limits) -> None:
    if limits.pool == "local" and not wanted.is_integer():
        raise BadFieldError("num_cpus", f"whole cores only (not {wanted:g})")
    if wanted < _LEAST_CPUS:
        raise BadFieldError("num_cpus", f"at least {_LEAST_CPUS:g} cores (not {wanted:g})")
    if wanted > limits.cpus:
        raise BadFieldError(
            "num_cpus", f"a worker here has at most {limits.cpus:g} cores (not {wanted:g})"
        )


def _check_bandwidth(wanted: float, limits: Limits) -> None:
    if limits.pool == "local":
        raise BadFieldError(
            "max_bandwidth", "the bandwidth of workers here cannot be limited; leave it out"
        )
    if wanted < _LEAST_BANDWIDTH:
        raise BadFieldError(
            "max_bandwidth", f"at least {_LEAST_BANDWIDTH:g} Mbit/s (not {wanted:g})"
        )
    if limits.bandwidth and wanted > limits.bandwidth:
        raise BadFieldError(
            "max_bandwidth", f"at most {limits.bandwidth:g} Mbit/s (not {wanted:g})"
        )


def _check_task(order: RunOrder, task: Benchmark) -> None:
    if order.light_target and not task.light_args:
        raise BadFieldError("light_target", f"{task.name} has no light goal; leave it out")
    if order.seed is not None and not task.seeded:
        raise BadFieldError("seed", f"{task.name} takes no seed; leave it out")
    if order.gpu_enabled and not task.on_gpu:
        raise BadFieldError("gpu_enabled", f"{task.name} needs no GPU; leave it out")


def _check_backend(order: RunOrder, task: Benchmark, limits: Limits) -> None:
    wanted, possible = order.backend_name, task.backends or ("gloo",)
    if wanted not in possible:
        raise BadFieldError(
            "backend", f"{task.name} runs with {', '.join(possible)} here (not {wanted})"
        )
    if wanted == "nccl" and not order.gpu_enabled:
        right = "say gpu_enabled=true too" if limits.gpus else "workers here have none; use gloo"
        raise BadFieldError("backend", f"nccl needs GPUs: {right}")


def _check_args(order: RunOrder) -> None:
    for who, stated in order.stated_args.items():
        for key, value in stated.items():
            given = order.args.get(key, value)
            if given != value:
                raise BadFieldError(
                    f"args.{key}", f"{who} says {value} (not {given}); leave it out"
                )
