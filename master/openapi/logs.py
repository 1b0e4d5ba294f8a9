"""The operation on logs."""

from master.openapi.operation import Answer, Operation, Parameter, Schema, View
from master.openapi.parameters import ABOVE_0, WHOLE
from master.resources.logs import MAX_SEARCH_LENGTH, LogsResource


class LogPage(View):
    """A piece of what a rank wrote."""

    rank: int
    stream: str
    attempt: int
    text: str
    start: int
    """Where the text begins, in bytes."""
    offset: int
    """Where the next piece begins, in bytes."""
    size: int
    """Bytes of the log so far."""
    complete: bool
    """Whether the process has ended and this is the last piece."""


class LogMatch(View):
    """A line that has the text."""

    offset: int
    """Where the line begins, in bytes."""
    text: str
    """The line, cut at 500 characters."""


class LogSearch(View):
    """The lines that have a text."""

    rank: int
    stream: str
    attempt: int
    matches: list[LogMatch]
    start: int
    """Where the search began, in bytes."""
    offset: int
    """Where to go on, in bytes."""
    size: int
    """Bytes of the log so far."""
    complete: bool
    """Whether all that there is by now was looked through."""


_TEXT: Schema = {"type": "string", "examples": ["epoch 1: loss 0.31\n"]}
_LOG = {"rank": 0, "stream": "stdout", "attempt": 1}

OPERATIONS = (
    Operation(
        LogsResource,
        "get",
        "/api/runs/{run_id}/logs/",
        name="get_logs",
        parameters=(
            Parameter("rank", WHOLE, "Whose log.", example=0),
            Parameter(
                "stream",
                {"type": "string", "enum": ["stdout", "stderr"], "default": "stdout"},
                "Which of the two.",
                example="stdout",
            ),
            Parameter("attempt", ABOVE_0, "Of which attempt; by default the latest."),
            Parameter("offset", WHOLE, "Where to begin, in bytes.", example=0),
            Parameter("tail", WHOLE, "The last lines, this many; `offset` is then unused."),
            Parameter(
                "before",
                WHOLE,
                "The lines that end at this byte, at most 256 KiB of them, to read upwards; "
                "`offset` and `tail` are then unused.",
            ),
            Parameter(
                "search",
                {"type": "string", "minLength": 1, "maxLength": MAX_SEARCH_LENGTH},
                "The lines from `offset` on that have this text, whatever the case of its letters: "
                "at most 200, in at most 32 MiB; `tail` and `before` are then unused.",
            ),
            Parameter(
                "format",
                {"type": "string", "enum": ["json", "text"], "default": "json"},
                "A piece as JSON, or the whole log as a text file.",
                example="json",
            ),
        ),
        answer=Answer(
            "A piece of the log, or the lines that `search` has found.",
            LogPage | LogSearch,
            {
                **_LOG,
                "text": "epoch 1: loss 0.31\n",
                "start": 0,
                "offset": 19,
                "size": 19,
                "complete": True,
            },
            also={"text/plain; charset=utf-8": _TEXT},
        ),
        errors=(404,),
    ),
)
