"""Which pool there is: the one that the settings name."""

import threading

from prometheus_client import CollectorRegistry, Counter

from master.pools.base import Pool
from master.pools.local import LocalPool
from master.settings import ClusterSettings, SharedSettings
from mlbench.pool import PoolFiles


def open_pool(settings: SharedSettings, registry: CollectorRegistry, stop: threading.Event) -> Pool:
    """Return the pool, at work.

    Args:
        settings: they name the pool.
        registry: where its requests are counted, if it sends any.
        stop: what ends its work.

    Raises:
        SettingsError, ManifestError, ApiError: it cannot be opened; the text says why.
    """
    if settings.pool == "local":
        return LocalPool(PoolFiles(settings.home))
    # Only a controller in a cluster needs, and has, the package kubernetes.
    from master.pools.api import Api  # noqa: PLC0415
    from master.pools.kubernetes import KubernetesPool  # noqa: PLC0415
    from master.pools.manifests import Usual, load  # noqa: PLC0415

    requests = Counter(
        "mlbench_kubernetes_requests_total",
        "Requests to the API of the cluster, by their answer's status; error: there was none.",
        ("verb", "status"),
        registry=registry,
    )
    cluster = ClusterSettings.from_environ()
    pool = KubernetesPool(
        Api(lambda verb, status: requests.labels(verb, status).inc()),
        cluster,
        load(cluster.manifest),
        Usual(settings.limits.cpus, settings.limits.bandwidth, settings.limits.gpus),
    )
    pool.start(stop)
    return pool
