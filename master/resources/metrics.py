"""``/api/metrics/``: the samples of a pod or a run, to read and to add to."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import falcon
from falcon import Request, Response
from pydantic import BaseModel, ConfigDict, Field

from master import runs, times
from master.errors import BadFieldError
from master.models import Pod, Rank, Stream, pod_owner, run_owner
from master.reading.series import Selection, SeriesReader, split_name
from master.recording.samples import Sample, number_or_text
from master.recording.streams import append_samples
from master.resources.params import (
    choice,
    moment,
    parse_whole_number,
    read_body,
    whole_number,
)


class PostedSample(BaseModel):
    """The body of ``POST /api/metrics/``."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=True)

    name: str = Field(min_length=1, max_length=200)
    value: float | str
    date: datetime
    run_id: int | None = None
    pod_name: str | None = Field(default=None, max_length=253)


@dataclass(frozen=True)
class MetricsResource:
    """``/api/metrics/``: where samples are added."""

    def on_post(self, req: Request, resp: Response) -> None:
        """Add one sample to a run or a pod. After the answer it can be read."""
        posted = read_body(req, PostedSample)
        owner = _owner(posted)
        # A pod's series have no rank.
        metric, rank = split_name(posted.name) if posted.pod_name is None else (posted.name, "")
        sample = Sample(metric, rank, _time_us(posted.date), number_or_text(posted.value))
        append_samples(owner, [sample])
        resp.status = falcon.HTTP_CREATED
        resp.media = {
            "run_id": posted.run_id,
            "pod_name": posted.pod_name,
            "name": posted.name,
            "date": times.to_text(sample.time_us),
            "value": str(posted.value),
        }


@dataclass(frozen=True)
class OwnerMetricsResource:
    """``/api/metrics/{pod or run}/``: all samples of one pod or one run."""

    reader: SeriesReader

    def on_get(self, req: Request, resp: Response, owner: str) -> None:
        """Answer with the series by name, each in order of time."""
        kind = choice(req, "metric_type", ("pod", "run"), default="pod")
        wanted = req.get_param("metric_filter") or ""
        selection = Selection(
            since_us=moment(req, "since"),
            metric=split_name(wanted)[0] if kind == "run" else wanted,
            last_n=whole_number(req, "last_n"),
        )
        series = (
            self.reader.pod(_known_pod(owner), selection)
            if kind == "pod"
            else self.reader.run(runs.find(_run_id(owner)), selection)
        )
        media: dict[str, list[dict[str, Any]]] = {
            name: [{"date": times.to_text(p.time_us), "value": p.value} for p in points]
            for name, points in series.items()
        }
        resp.media = media


def _owner(posted: PostedSample) -> str:
    if posted.run_id is not None and posted.pod_name is None:
        return run_owner(runs.find(posted.run_id).id)
    if posted.pod_name is not None and posted.run_id is None:
        return pod_owner(_known_pod(posted.pod_name))
    raise BadFieldError("run_id and pod_name", "give one of the two")


def _time_us(date: datetime) -> int:
    time_us = times.to_microseconds(date)
    try:
        times.to_text(time_us)
    except OverflowError:
        raise BadFieldError("date", "in the years 1 to 9999, in UTC") from None
    return time_us


def _run_id(text: str) -> int:
    number = parse_whole_number(text)
    if number is None:
        raise falcon.HTTPNotFound(description=f"run_id: there is no run {text!r}")
    return number


def _known_pod(name: str) -> str:
    """Return the name of a pod that there is, or that has run a rank or has samples.

    Raises:
        falcon.HTTPNotFound: there never was such a pod.
    """
    if Pod.select().where(Pod.name == name).exists():
        return name
    if Rank.select().where(Rank.worker == name).exists():
        return name
    if Stream.select().where(Stream.owner == pod_owner(name)).exists():
        return name
    raise falcon.HTTPNotFound(description=f"pod_name: there is no pod {name!r}")
