"""The operations on the master itself, for probes, Prometheus and tools."""

from typing import Any, Literal

from prometheus_client import CONTENT_TYPE_LATEST

from master.openapi.operation import Answer, Operation, View
from master.resources.health import HealthResource, OwnMetricsResource, ReadyResource
from master.resources.openapi import OpenApiResource


class Health(View):
    """All is well."""

    status: Literal["ok"]


OPERATIONS = (
    Operation(
        HealthResource,
        "get",
        "/healthz",
        name="get_health",
        answer=Answer("The process is alive.", Health, {"status": "ok"}),
    ),
    Operation(
        ReadyResource,
        "get",
        "/readyz",
        name="get_readiness",
        answer=Answer("The database and Prometheus answer.", Health, {"status": "ok"}),
        errors=(503,),
    ),
    Operation(
        OwnMetricsResource,
        "get",
        "/metrics",
        name="get_own_metrics",
        answer=Answer(
            "The master's own metrics, in Prometheus's text format.",
            also={CONTENT_TYPE_LATEST: {"type": "string"}},
        ),
        errors=(421,),
    ),
    Operation(
        OpenApiResource,
        "get",
        "/openapi.json",
        name="get_openapi",
        answer=Answer("This document.", dict[str, Any], {"openapi": "3.1.0"}),
    ),
)
