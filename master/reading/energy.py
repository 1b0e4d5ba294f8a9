"""The energy that pods' GPUs used, as the exporter measures it and Prometheus scrapes it."""

from collections.abc import Sequence

from master.reading.promql import PrometheusClient, select
from mlbench import names


def used_joules(
    prometheus: PrometheusClient, pods: Sequence[str], began_at: float, ended_at: float
) -> float | None:
    """Return what pods used from one moment to another, in Unix seconds.

    None where one of them was not measured: the others' would pass for the whole.

    Raises:
        PrometheusError: Prometheus gives no answer.
    """
    length_ms = round((ended_at - began_at) * 1000)
    if not pods or length_ms <= 0:
        return None
    # Counters have a pod's name while its processes have the GPU to themselves.
    counters = select({"__name__": names.GPU_ENERGY}, {"pod": pods})
    promql = f"sum by (pod) (increase({counters}[{length_ms}ms]))"
    used = [float(one.values[0]) for one in prometheus.query(promql, ended_at)]
    return sum(used) if len(used) == len(pods) else None
