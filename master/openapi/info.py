"""The operation on the installation."""

from typing import Literal

from master.openapi.operation import Answer, Operation, View
from master.resources.info import InfoResource


class BandwidthLimit(View):
    """How much bandwidth a run may ask for."""

    most: float | None
    """Mbit/s that a worker may send; ``null``: any number."""


class RunLimits(View):
    """What a run may ask for."""

    workers: int
    """The most of them."""
    cpus: float
    """The most cores of a worker."""
    whole_cpus: bool
    """Whether a worker gets whole cores only."""
    bandwidth: BandwidthLimit | None
    """``null`` where it cannot be limited."""
    gpus: int
    """GPUs of a worker of a run that asks for them; 0 where there are none."""


class Place(View):
    """Something else to look at, as a browser reaches it."""

    url: str


class Info(View):
    """An installation."""

    version: str
    pool: Literal["local", "kubernetes"]
    """Where the workers are."""
    workers: int
    """How many idle ones are kept."""
    limits: RunLimits
    grafana: Place | None
    prometheus: Place | None
    """That of a local stack; a cluster's is not for browsers."""


OPERATIONS = (
    Operation(
        InfoResource,
        "get",
        "/api/info/",
        name="get_info",
        answer=Answer(
            "The installation.",
            Info,
            {
                "version": "0.1.0",
                "pool": "local",
                "workers": 2,
                "limits": {
                    "workers": 16,
                    "cpus": 8.0,
                    "whole_cpus": True,
                    "bandwidth": None,
                    "gpus": 0,
                },
                "grafana": {"url": "http://127.0.0.1:3000"},
                "prometheus": {"url": "http://127.0.0.1:9090"},
            },
        ),
    ),
)
