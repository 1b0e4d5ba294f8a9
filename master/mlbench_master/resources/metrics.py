"""``/api/metrics/``: the samples of a pod or a run, to read and to add to."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Annotated, Any

from falcon import Request, Response
from pydantic import Field

from mlbench.contract.records import Count, Echo, Point, RunMetric
from mlbench_master import times
from mlbench_master.database.models import Run
from mlbench_master.errors import BadFieldError, NotFoundError
from mlbench_master.http.bodies import compressed, offer_file, read_bodies
from mlbench_master.http.fields import NO_NUL, parse_whole_number
from mlbench_master.http.original import is_original
from mlbench_master.openapi.operation import Parameter, flag, moment, one_of, operation, whole
from mlbench_master.reading import formats
from mlbench_master.reading.formats import Answer, Owner
from mlbench_master.reading.selection import AFTER_ALL_US, BEFORE_ALL_US, Selection
from mlbench_master.reading.series import SeriesReader
from mlbench_master.recording import posting
from mlbench_master.recording.limits import SeriesLimit, Spool
from mlbench_master.recording.posting import MAX_SAMPLES, PostedSample
from mlbench_master.results.query import line_of
from mlbench_master.runs import life

_WHOSE = "Whose series: what was recorded for runs, or the resource use of pods"
_SINCE = moment(
    "since",
    "Only points newer than this; `2018-08-03 09:21:29.347960` is UTC too.",
    "2018-08-03T09:21:29.347960Z",
    default=BEFORE_ALL_US,
)
_UNTIL = moment(
    "until",
    "Only points up to this time, which is included.",
    "2038-08-03T09:21:29Z",
    default=AFTER_ALL_US,
)
_FILTER = Parameter(
    "metric_filter",
    {"type": "array", "items": {"type": "string", "pattern": NO_NUL}},
    "Only the series of this name, such as `train_loss @ 0`, or of this metric, such as "
    "`train_loss`, whatever its rank. Given several times: of any of them.",
    str,
    default="",
    example=["train_loss", "learning_rate"],
)
_SUMMARIZE = whole(
    "summarize",
    "At most this many points of each series: averages of as many points each, or where it is "
    "many series over as much time each. In JSON, `min` and `max` keep the spikes.",
    100,
    least=1,
)
_ADDED = flag(
    "added",
    "`false` leaves out what was posted for a run after its end; else its points say `added`.",
    default=True,
)
_LINE = one_of(
    "line",
    ("kept", "abandoned", "all"),
    "Of a run that was restarted: what led to its last model, what was recorded after a checkpoint "
    "from which it went on, or both.",
    "kept",
)
_LAST_N = whole("last_n", "Only this many points of each series, the newest.", 10, least=1)
_FORMAT = one_of(
    "format",
    formats.FORMATS,
    "JSON, a zip file with a JSON file for each series, or CSV with a header.",
    "json",
)
_SELECTION = (_SINCE, _UNTIL, _FILTER, _SUMMARIZE, _ADDED, _LINE, _LAST_N, _FORMAT)
_OF_ONE = one_of("metric_type", ("pod", "run"), f"{_WHOSE}.", "run")
_OF_MANY = one_of(
    "metric_type",
    ("pod", "run", "all"),
    f"{_WHOSE}, or `all`, which MLBench's original client gets by default.",
    "run",
)
_FILES: dict[str, Any] = {
    "text/csv": {
        "type": "string",
        "examples": [
            "series,date,value,cumulative,metadata,added\r\n"
            "train_loss @ 0,2026-03-01T09:21:31.000000Z,0.31,,,\r\n"
        ],
    },
    "application/zip": {"type": "string", "contentMediaType": "application/zip"},
}
_PostedList = Annotated[list[PostedSample], Field(min_length=1, max_length=MAX_SAMPLES)]
_Series = dict[str, list[Point]]


@dataclass(frozen=True)
class MetricsResource:
    """``/api/metrics/``: the series of all pods or runs, of one, and where samples are added."""

    spool: Spool
    limit: SeriesLimit
    reader: SeriesReader

    @operation(
        "list_metrics",
        "The series of each pod by its name, or of each run by its id. A text in place of the "
        "series says that Prometheus has lost some of their samples.",
        dict[str, _Series | str],
        files=_FILES,
        parameters=(*_SELECTION, _OF_MANY),
        errors=(503,),
    )
    def on_get(self, req: Request, resp: Response) -> None:
        """Answer with the series of each pod, of each run, or of all of them."""
        selection, format_, line = _selection(req), _FORMAT.read(req), _LINE.read(req)
        is_told = req.has_param(_OF_MANY.name) or not is_original(req)
        kind = _OF_MANY.read(req) if is_told else "all"
        pods = (Owner("pod", *one) for one in self.reader.pods(selection))
        owners = {"pod": pods, "run": self._runs(selection, line)}
        wanted = (of for name, of in owners.items() if kind in {name, "all"})
        _send(req, resp, formats.write_all(chain.from_iterable(wanted), kind, format_))

    def _runs(self, selection: Selection, line: str) -> Iterator[Owner]:
        found = Run.select(Run.id, Run.created_at, Run.finished_at, Run.attempt).order_by(Run.id)
        return (self._run(run, selection, line) for run in list(found))

    def _run(self, run: Run, selection: Selection, line: str) -> Owner:
        pods = self.reader.pods_of(run, selection)
        if line != "all" and run.attempt > 1:
            of_run = line_of(self.reader, life.find(run.id))
            selection = replace(selection, line=of_run, is_on_line=line == "kept")
        elif line == "abandoned":
            return Owner("run", str(run.id), iter(()), pods)
        return Owner("run", str(run.id), self.reader.run(run.id, selection), pods)

    @operation(
        "add_metrics",
        "The sample as it was given, or how many samples the list had. They can be read.",
        Echo | Count,
        status=201,
        body=PostedSample | _PostedList,
        form=True,
        errors=(404, 409, 503),
    )
    def on_post(self, req: Request, resp: Response) -> None:
        """Add one sample, or a list of them, to runs or pods. After the answer they can be read."""
        posted = read_bodies(req, PostedSample, MAX_SAMPLES)
        self.spool.check_room()
        if isinstance(posted, list):
            posting.store(posted, self.limit)
            resp.media = Count(len(posted))
        else:
            posting.store([posted], self.limit)
            resp.media = _echo(posted)

    @operation(
        "get_metrics",
        "The series by name, each in order of time.",
        _Series,
        files=_FILES,
        parameters=(*_SELECTION, _OF_ONE),
        errors=(502, 503),
    )
    def on_get_owner(self, req: Request, resp: Response, owner: str) -> None:
        """Answer with the series by name, each in order of time."""
        selection, format_, title = _selection(req), _FORMAT.read(req), owner
        if _OF_ONE.read(req) == "pod":
            content = Owner("pod", posting.find_pod(owner), self.reader.pod(owner, selection))
        else:
            run_id = parse_whole_number(owner)
            if run_id is None:
                raise NotFoundError(f"run_id: run {owner!r} not found")
            run = life.find(run_id)
            content, title = self._run(run, selection, _LINE.read(req)), run.name
        _send(req, resp, formats.write_one(content, format_, title))

    @operation("list_run_metrics", "The metrics, by name.", list[RunMetric], errors=(503,))
    def on_get_run(self, req: Request, resp: Response, run_id: int) -> None:
        """Answer with the metrics that the run has recorded so far, in order of their names."""
        resp.media = self.reader.metrics(life.find(run_id))


def _echo(posted: PostedSample) -> dict[str, Any]:
    """Return the fields of the sample's ``Echo``: a record's own way takes ten times as long."""
    given = {name: part for name, part in posted if part is not None}
    date = times.to_text(times.to_microseconds(posted.date))
    return given | {"date": date, "value": str(posted.value)}


def _send(req: Request, resp: Response, answer: Answer) -> None:
    # An error before the first piece is answered; a later one breaks the answer off.
    chunks = chain([next(answer.chunks)], answer.chunks)
    # What pages draw; a download of all takes longer to compress than to send.
    is_summary = req.has_param(_SUMMARIZE.name)
    resp.stream = compressed(req, resp, chunks) if is_summary else chunks
    resp.content_type = answer.content_type
    if answer.file_name:
        offer_file(resp, answer.file_name)


def _selection(req: Request) -> Selection:
    wanted = req.get_param_as_list(_FILTER.name, default=[])
    if any("\0" in name for name in wanted):
        raise BadFieldError(_FILTER.name, "must not contain NUL")
    return Selection(
        after_us=_SINCE.read(req),
        until_us=_UNTIL.read(req),
        names=tuple(filter(None, wanted)),
        summarize=_SUMMARIZE.read(req),
        last_n=_LAST_N.read(req),
        with_added=_ADDED.read(req),
    )
