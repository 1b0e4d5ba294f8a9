"""What the document says of one operation: a method of a route."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from master.auth import Access, access_of

Method = Literal["get", "post", "put", "delete"]
Schema = Mapping[str, Any]

JSON = "application/json"
JAVASCRIPT = "text/javascript"

Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
"""A time in UTC, to the microsecond, such as ``2018-08-03T09:21:29.347960Z``."""


class View(BaseModel):
    """Something as the API shows it: these fields, all of them, and no other."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


@dataclass(frozen=True)
class Parameter:
    """A query parameter, or a variable part of a path."""

    name: str
    schema: Schema
    description: str
    example: Any = None
    required: bool = False


@dataclass(frozen=True)
class Request:
    """The body that an operation takes."""

    model: Any
    """A pydantic model, or a type made of such; None for plain bytes."""
    examples: Mapping[str, Any]
    """By name."""
    form: type[BaseModel] | None = None
    """What it may be as a form; None if it cannot be one."""


@dataclass(frozen=True)
class Answer:
    """What an operation answers if all goes well."""

    description: str
    model: Any = None
    """What the JSON holds; None for an answer that is not JSON."""
    example: Any = None
    status: int = HTTPStatus.OK
    also: Mapping[str, Schema] = field(default_factory=dict)
    """Schemas by media type, of answers that are not JSON."""


@dataclass(frozen=True)
class Operation:
    """A method of a route. Its description is the docstring of the resource's method."""

    resource: type
    method: Method
    path: str
    """As the document writes it: with a slash at the end, and without converters."""
    name: str
    answer: Answer
    parameters: tuple[Parameter, ...] = ()
    """Of the query."""
    request: Request | None = None
    errors: tuple[int, ...] = ()
    """Besides those that all routes have."""

    @property
    def access(self) -> Access:
        """Who may use it."""
        return access_of(self.resource)

    @property
    def docstring(self) -> str:
        """What the resource says of its method."""
        return getattr(self.resource, f"on_{self.method}").__doc__ or ""
