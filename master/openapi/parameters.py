"""The parameters that several operations share, and every variable part of a path."""

from master.openapi.operation import Parameter
from mlbench.names import STREAMS

# The largest number that the API reads in a path or a query.
_LARGEST = 10**18 - 1

WHOLE = {"type": "integer", "minimum": 0, "maximum": _LARGEST}
ABOVE_0 = {"type": "integer", "minimum": 1, "maximum": _LARGEST}

_OF_PATHS = (
    Parameter("run_id", {"type": "integer"}, "The run.", 1, required=True),
    Parameter("rank", {"type": "integer"}, "The rank.", 0, required=True),
    Parameter(
        "stream", {"type": "string", "enum": list(STREAMS)}, "Which.", "stdout", required=True
    ),
    Parameter(
        "owner",
        {"type": "string"},
        "A pod's name, or a run's id with `metric_type=run`.",
        "1",
        required=True,
    ),
    Parameter(
        "pod", {"type": "string"}, "The worker's name.", "local-mlbench-worker-0", required=True
    ),
)
OF_PATHS = {parameter.name: parameter for parameter in _OF_PATHS}
