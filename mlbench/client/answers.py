"""What comes back from the master: an answer, a refusal, or nothing."""

import json
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")


@dataclass(frozen=True)
class Answer(Generic[Value]):
    """The master's answer to one request; what a client's futures give."""

    value: Value
    """What the answer says, typed: a ``Run``, a list of pods, a zip file's bytes…"""
    status_code: int
    """The HTTP status: 200, 201 or 204."""
    content: bytes = field(repr=False)
    """The body as it came."""

    def json(self) -> Any:
        """Return the body, read as JSON.

        Raises:
            ValueError: it is no JSON, e.g. a zip file.
        """
        return json.loads(self.content)
