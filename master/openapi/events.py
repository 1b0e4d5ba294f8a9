"""The operation on a run's events."""

from master.events import Kind
from master.openapi.operation import Answer, Operation, Time, View
from master.resources.events import EventsResource


class Event(View):
    """Something that happened to a run."""

    time: Time
    kind: Kind
    """`ready`: the workers are there; `started`: all ranks run; `restarted`: a later attempt began;
    `goal`: the goal was reached; `exited`: a rank ended with an error; `lost`: it was given up."""
    attempt: int
    """0 before the first one."""
    rank: int | None
    """The rank that it happened to; None for the run as a whole."""
    text: str
    """What happened, in a sentence."""


OPERATIONS = (
    Operation(
        EventsResource,
        "get",
        "/api/runs/{run_id}/events/",
        name="get_events",
        answer=Answer(
            "What has happened by now, in order of time.",
            list[Event],
            [
                {
                    "time": "2026-03-01T09:21:29.347960Z",
                    "kind": "created",
                    "attempt": 0,
                    "rank": None,
                    "text": "The run was ordered",
                },
                {
                    "time": "2026-03-01T09:21:33.120000Z",
                    "kind": "exited",
                    "attempt": 1,
                    "rank": 1,
                    "text": "Rank 1 on local-mlbench-worker-1 exited with code 3",
                },
            ],
        ),
        errors=(404,),
    ),
)
