"""The operations on metrics."""

from typing import Annotated, Any, NotRequired

from pydantic import Field, with_config
from typing_extensions import TypedDict  # before Python 3.12, pydantic cannot use typing's

from master.openapi.operation import Answer, Operation, Parameter, Request, Schema, Time, View
from master.openapi.parameters import ABOVE_0
from master.reading.formats import FORMATS
from master.recording.posting import MAX_SAMPLES, PostedSample
from master.resources.metrics import MetricsResource, OwnerMetricsResource


@with_config(extra="forbid")
class Point(TypedDict):
    """A value at a time. ``cumulative`` and ``metadata`` are there where they were given.

    ``min`` and ``max`` are there where the value is an average of several points: of their finite
    numbers.
    """

    date: Time
    value: str
    cumulative: NotRequired[bool]
    metadata: NotRequired[Any]
    min: NotRequired[str]
    max: NotRequired[str]


@with_config(extra="forbid")
class Echo(TypedDict):
    """A sample as it was given, with one of ``run_id`` and ``pod_name``."""

    run_id: NotRequired[int]
    pod_name: NotRequired[str]
    name: str
    date: Time
    value: str
    cumulative: NotRequired[bool]
    metadata: NotRequired[Any]


class Count(View):
    """How many samples a list had."""

    count: int


PostedList = Annotated[list[PostedSample], Field(min_length=1, max_length=MAX_SAMPLES)]
SeriesByName = dict[str, list[Point]]

_SELECTION = (
    Parameter(
        "since",
        {"type": "string", "format": "date-time"},
        "Only points newer than this; `2018-08-03 09:21:29.347960` is UTC too.",
        example="2018-08-03T09:21:29.347960Z",
    ),
    Parameter(
        "until",
        {"type": "string", "format": "date-time"},
        "Only points up to this time, which is included.",
        example="2038-08-03T09:21:29Z",
    ),
    Parameter(
        "metric_type",
        {"type": "string", "enum": ["pod", "run"], "default": "pod"},
        "Whose series: what was recorded for runs, or the resource use of pods.",
        example="run",
    ),
    Parameter(
        "metric_filter",
        {"type": "array", "items": {"type": "string"}},
        "Only the series of this name, such as `train_loss @ 0`, or of this metric, such as "
        "`train_loss`, whatever its rank. Given several times: of any of them.",
        example=["train_loss", "learning_rate"],
    ),
    Parameter(
        "summarize",
        ABOVE_0,
        "At most this many points of each series: averages of as many points each. In JSON, `min` "
        "and `max` keep the spikes.",
        example=100,
    ),
    Parameter("last_n", ABOVE_0, "Only this many points of each series, the newest.", example=10),
    Parameter(
        "format",
        {"type": "string", "enum": list(FORMATS), "default": "json"},
        "JSON, a zip file with a JSON file for each series, or CSV with a header.",
        example="json",
    ),
)
_FILES: dict[str, Schema] = {
    "text/csv": {
        "type": "string",
        "examples": [
            "series,date,value,cumulative,metadata\r\n"
            "train_loss @ 0,2026-03-01T09:21:31.000000Z,0.31,,\r\n"
        ],
    },
    "application/zip": {"type": "string", "contentMediaType": "application/zip"},
}
_SERIES = {
    "train_loss @ 0": [
        {"date": "2026-03-01T09:21:31.000000Z", "value": "0.31"},
        {"date": "2026-03-01T09:21:32.000000Z", "value": "0.25"},
    ]
}
_SAMPLE = {
    "run_id": 1,
    "name": "accuracy",
    "date": "2018-08-03T09:21:44.331823Z",
    "value": "0.7845",
    "cumulative": False,
    "metadata": "some additional data",
}

OPERATIONS = (
    Operation(
        MetricsResource,
        "get",
        "/api/metrics/",
        name="list_metrics",
        parameters=_SELECTION,
        answer=Answer(
            "The series of each pod by its name, or of each run by its id. A text in place of the "
            "series says that Prometheus has lost some of their samples.",
            dict[str, SeriesByName | str],
            {"1": _SERIES},
            also=_FILES,
        ),
        errors=(503,),
    ),
    Operation(
        MetricsResource,
        "post",
        "/api/metrics/",
        name="add_metrics",
        request=Request(
            PostedSample | PostedList,
            {
                "one": _SAMPLE,
                "list": [
                    {"run_id": 1, "name": "train_loss @ 0", "date": date, "value": value}
                    for date, value in [
                        ("2026-03-01T09:21:31Z", 0.31),
                        ("2026-03-01T09:21:32Z", 0.25),
                    ]
                ],
            },
            form=PostedSample,
        ),
        answer=Answer(
            "The sample as it was given, or how many samples the list had. They can be read.",
            Echo | Count,
            _SAMPLE,
            status=201,
        ),
        errors=(404, 413, 503),
    ),
    Operation(
        OwnerMetricsResource,
        "get",
        "/api/metrics/{owner}/",
        name="get_metrics",
        parameters=_SELECTION,
        answer=Answer(
            "The series by name, each in order of time.", SeriesByName, _SERIES, also=_FILES
        ),
        errors=(404, 502, 503),
    ),
)
