"""The operations of the agents: poll, and ship a stream."""

from master.openapi.operation import Answer, Operation, Parameter, Request, View
from master.openapi.parameters import WHOLE
from master.resources.workers import PollResource, StreamResource
from master.workers import Reply, Report


class Held(View):
    """How much of a stream the master has."""

    offset: int
    """In bytes: where the next chunk begins."""


OPERATIONS = (
    Operation(
        PollResource,
        "post",
        "/api/workers/{pod}/poll/",
        name="poll",
        request=Request(
            Report,
            {
                "idle": {"state": "idle", "ip": "127.0.0.1"},
                "exited": {
                    "state": "exited",
                    "ip": "127.0.0.1",
                    "run_id": 1,
                    "attempt": 1,
                    "rank": 0,
                    "exit_code": 0,
                    "exited_at": 1772356901.0,
                    "sizes": {"stdout": 19, "stderr": 0, "metrics": 4096},
                },
            },
        ),
        answer=Answer(
            "What to do, and when to ask again.",
            Reply,
            {
                "do": "wait",
                "next_poll_seconds": 0.25,
                "time": 1772356889.760112,
                "assignment": None,
            },
        ),
        errors=(413,),
    ),
    Operation(
        StreamResource,
        "put",
        "/api/runs/{run_id}/ranks/{rank}/{stream}/",
        name="ship_stream",
        parameters=(
            Parameter("attempt", WHOLE, "The run's attempt.", example=1, required=True),
            Parameter(
                "offset", WHOLE, "Where the body begins in the stream.", example=0, required=True
            ),
            Parameter(
                "written",
                WHOLE,
                "How long the stream is by now. The answer may lead past what is left out of a "
                "long log.",
            ),
        ),
        request=Request(None, {"text": "epoch 1: loss 0.31\n"}),
        answer=Answer(
            "The offset to go on from: all before it is held, or left out.", Held, {"offset": 19}
        ),
        errors=(404, 409, 413, 503),
    ),
)
