"""``/api/metrics/``: the samples of a pod or a run, to read and to add to."""

from dataclasses import dataclass
from itertools import chain
from typing import Any

import falcon
from falcon import Request, Response

from master import runs, times
from master.errors import BadFieldError
from master.reading import answers
from master.reading.answers import Answer
from master.reading.selection import AFTER_ALL_US, BEFORE_ALL_US, Selection
from master.reading.series import SeriesReader
from master.recording import posting
from master.recording.limits import SeriesLimit
from master.recording.posting import MAX_SAMPLES, PostedSample
from master.recording.spool import Spool
from master.resources.params import (
    choice,
    moment,
    parse_whole_number,
    read_bodies,
    whole_number,
)


@dataclass(frozen=True)
class MetricsResource:
    """``/api/metrics/``: the series of all pods or runs, and where samples are added."""

    spool: Spool
    limit: SeriesLimit
    reader: SeriesReader

    def on_get(self, req: Request, resp: Response) -> None:
        """Answer with the series of each pod, or of each run."""
        selection, form = _selection(req), _format(req)
        everything = answers.all_pods if _kind(req) == "pod" else answers.all_runs
        _send(resp, everything(self.reader, selection, form))

    def on_post(self, req: Request, resp: Response) -> None:
        """Add one sample, or a list of them, to runs or pods. After the answer they can be read."""
        posted = read_bodies(req, PostedSample, MAX_SAMPLES)
        self.spool.check_room()
        resp.status = falcon.HTTP_CREATED
        if isinstance(posted, list):
            posting.store(posted, self.limit)
            resp.media = {"count": len(posted)}
        else:
            posting.store([posted], self.limit)
            resp.media = _to_media(posted)


@dataclass(frozen=True)
class OwnerMetricsResource:
    """``/api/metrics/{pod or run}/``: the series of one pod or one run."""

    reader: SeriesReader

    def on_get(self, req: Request, resp: Response, owner: str) -> None:
        """Answer with the series by name, each in order of time."""
        selection, form = _selection(req), _format(req)
        if _kind(req) == "pod":
            pod = posting.find_pod(owner)
            answer = answers.pod(self.reader, pod, selection, form)
        else:
            run = runs.find(_run_id(owner))
            answer = answers.run(self.reader, run, selection, form)
        _send(resp, answer)


def _to_media(posted: PostedSample) -> dict[str, Any]:
    given = {name: value for name, value in posted if value is not None}
    date = times.to_text(times.to_microseconds(posted.date))
    return given | {"date": date, "value": str(posted.value)}


def _send(resp: Response, answer: Answer) -> None:
    # What fails before the first piece is there can still be told; later, the answer breaks off.
    first = next(answer.pieces)
    resp.stream = chain([first], answer.pieces)
    resp.content_type = answer.content_type
    if answer.file_name:
        resp.downloadable_as = answer.file_name


def _kind(req: Request) -> str:
    return choice(req, "metric_type", ("pod", "run"), default="pod")


def _format(req: Request) -> str:
    return choice(req, "format", answers.FORMATS, default="json")


def _selection(req: Request) -> Selection:
    wanted = req.get_param_as_list("metric_filter", default=[])
    if any("\0" in name for name in wanted):
        raise BadFieldError("metric_filter", "a name without NUL")
    return Selection(
        after_us=moment(req, "since", default=BEFORE_ALL_US),
        until_us=moment(req, "until", default=AFTER_ALL_US),
        names=tuple(filter(None, wanted)),
        summarize=_points(req, "summarize"),
        last_n=_points(req, "last_n"),
    )


def _points(req: Request, name: str) -> int | None:
    number = whole_number(req, name)
    if number == 0:
        raise BadFieldError(name, "1 or more points (not '0')")
    return number


def _run_id(text: str) -> int:
    number = parse_whole_number(text)
    if number is None:
        raise falcon.HTTPNotFound(description=f"run_id: there is no run {text!r}")
    return number
