"""``/api/metrics/``: read and add samples of runs and pods."""

from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Annotated, Any, Literal

from falcon import Request, Response

from mlbench.contract.conversion import parse_whole_number
from mlbench.contract.fields import Field
from mlbench.contract.records import Count, Echo, Point, RunMetric
from mlbench_master import timestamps
from mlbench_master.database.models import Run
from mlbench_master.errors import NotFoundError
from mlbench_master.http.bodies import compressed, offer_file, read_bodies
from mlbench_master.http.original_requests import is_original
from mlbench_master.openapi.operation import operation
from mlbench_master.openapi.parameters import Moment, Positive, Text
from mlbench_master.reading import formats
from mlbench_master.reading.formats import FormattedSeries, Owner
from mlbench_master.reading.record import leaves_out, left_out
from mlbench_master.reading.selection import AFTER_ALL_US, BEFORE_ALL_US, Selection
from mlbench_master.reading.series import SeriesReader
from mlbench_master.recording import ingest
from mlbench_master.recording.ingest import MAX_SAMPLES, PostedSample
from mlbench_master.recording.limits import SeriesLimit, Spool
from mlbench_master.recording.streams import waiting_bytes
from mlbench_master.results import original_result
from mlbench_master.results.result_query import line_of, result_of
from mlbench_master.runs import lifecycle


@dataclass(frozen=True, kw_only=True)
class SeriesQuery:
    """The parameters that select series and their points."""

    since: Annotated[Moment, Field(example="2018-08-03T09:21:29.347960Z")] = BEFORE_ALL_US
    """Return only points after this time. Times without an offset are UTC."""
    until: Annotated[Moment, Field(example="2038-08-03T09:21:29Z")] = AFTER_ALL_US
    """Return only points up to and including this time."""
    metric_filter: Annotated[list[Text], Field(example=["train_loss", "learning_rate"])] = field(
        default_factory=list
    )
    """Return only the series of this name, e.g. `train_loss @ 0`, or of this metric on any rank,
    e.g. `train_loss` (repeatable)."""
    summarize: Annotated[Positive | None, Field(example=100)] = None
    """Maximum number of points per series. Each point is the average of equally many points. In
    JSON, `min` and `max` keep the spikes."""
    added: bool = True
    """Include samples that were posted after the end of the run, marked as `added`."""
    lineage: Literal["final", "discarded", "all"] = "final"
    """Part of a restarted run to return. `final`: samples that contributed to the final model.
    `discarded`: samples discarded by a restart from an earlier checkpoint. `all`: both."""
    last_n: Annotated[Positive | None, Field(example=10)] = None
    """Return only this many of the newest points of each series."""
    format: formats.Format = "json"
    """`json`, `zip` (a JSON file for each series) or `csv` (with a header)."""

    @property
    def selection(self) -> Selection:
        """The selected series and points."""
        return Selection(
            after_us=self.since,
            until_us=self.until,
            names=tuple(filter(None, self.metric_filter)),
            summarize=self.summarize,
            last_n=self.last_n,
            with_added=self.added,
        )


@dataclass(frozen=True, kw_only=True)
class MetricsQuery(SeriesQuery):
    """The parameters of ``GET /api/metrics/``."""

    metric_type: Annotated[Literal["pod", "run", "all"] | None, Field(example="run")] = None
    """Kind of series: `run` for samples of runs, `pod` for the resource usage of pods, `all` for
    both. Default: `pod`; for MLBench's original client, `all`."""


@dataclass(frozen=True, kw_only=True)
class OwnerQuery(SeriesQuery):
    """The parameters of ``GET /api/metrics/{owner}/``."""

    exact: bool = False
    """Read a run's series from the record, with microseconds, even if Prometheus has all
    samples."""
    metric_type: Annotated[Literal["pod", "run"], Field(example="run")] = "pod"
    """Kind of series: `run` for samples of runs, `pod` for the resource usage of pods."""


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


class BacklogMiddleware:
    """Has responses say if they lack samples because indexing is far behind."""

    def process_request(self, req: Request, resp: Response) -> None:
        """Begin a request."""
        left_out.set(0)

    def process_response(
        self, req: Request, resp: Response, resource: object, req_succeeded: bool
    ) -> None:
        """Name the number of bytes of lines that the response lacks."""
        if size := left_out.get():
            resp.set_header("MLBench-Left-Out", str(size))


@dataclass(frozen=True)
class MetricsResource:
    """``/api/metrics/``: series of all pods or runs, of one of them, and new samples."""

    spool: Spool
    limit: SeriesLimit
    reader: SeriesReader

    @operation(
        "list_metrics",
        "The series of each pod by name, or of each run by id, without runs whose archive was "
        "deleted after its time.",
        dict[str, _Series],
        files=_FILES,
        errors=(503,),
    )
    def on_get(self, req: Request, resp: Response, query: MetricsQuery) -> None:
        """Return the series of all pods, all runs, or both."""
        kind = query.metric_type or ("all" if is_original(req) else "pod")
        has_record = Run.blocks_deleted_at.is_null() | Run.archive.is_null(False)
        runs = Run.select().where(has_record).order_by(Run.id)
        leaves_out(waiting_bytes())  # the header comes before the series are read
        owners = {
            "pod": (Owner("pod", *pod) for pod in self.reader.pods(query.selection)),
            "run": (self._owner_of(run, query) for run in list(runs)),
        }
        selected = (group for name, group in owners.items() if kind in {name, "all"})
        answer = formats.write_all(chain.from_iterable(selected), kind, query.format)
        _send(req, resp, query, answer)

    def _owner_of(self, run: Run, query: SeriesQuery) -> Owner:
        selection = query.selection
        pods = self.reader.pods_of(run, selection)
        if query.lineage != "all" and run.attempt > 1:
            line = line_of(self.reader, lifecycle.find(run.id))
            selection = replace(selection, lineage=line, is_in_lineage=query.lineage == "final")
        elif query.lineage == "discarded":
            return Owner("run", str(run.id), iter(()), pods)
        return Owner("run", str(run.id), self.reader.run(run.id, selection), pods)

    @operation(
        "add_metrics",
        "The stored sample, or the number of stored samples for a list.",
        Echo | Count,
        status=201,
        body=PostedSample | _PostedList,
        form=True,
        errors=(404, 409, 503),
    )
    def on_post(self, req: Request, resp: Response) -> None:
        """Add a sample, or a list of samples, to runs or pods. They can be read at once."""
        posted = read_bodies(req, PostedSample, MAX_SAMPLES)
        self.spool.check_room()
        if isinstance(posted, list):
            ingest.store(posted, self.limit)
            resp.media = Count(len(posted))
        else:
            ingest.store([posted], self.limit)
            # Written by hand, because building the record takes ten times as long.
            fields = {name: part for name, part in vars(posted).items() if part is not None}
            date = timestamps.to_text(timestamps.to_microseconds(posted.date))
            resp.media = fields | {"date": date, "value": str(posted.value)}

    @operation(
        "get_metrics",
        "The series by name, with points in order of time.",
        _Series,
        files=_FILES,
        errors=(502, 503),
    )
    def on_get_owner(self, req: Request, resp: Response, query: OwnerQuery, owner: str) -> None:
        """Return the series of a pod or a run."""
        selection, title = query.selection, owner
        if query.metric_type == "pod":
            content = Owner("pod", ingest.find_pod(owner), self.reader.pod(owner, selection))
        else:
            run_id = parse_whole_number(owner)
            if run_id is None:
                raise NotFoundError(f"run_id: run {owner!r} not found")
            run = lifecycle.find(run_id)
            content, title = self._owner_of(run, query), run.name
            # MLBench's original client and files get exact times.
            is_exact = query.exact or query.format != "json" or is_original(req)
            content = replace(
                content, official=lambda: original_result.sentence(result_of(self.reader, run))
            )
            if is_original(req):
                totals = original_result.totals_of(self.reader, run, selection)
                content = replace(content, series=chain(content.series, totals))
            if not is_exact and run.attempt == 1:
                source, series = self.reader.published(run, selection)
                content = replace(content, series=series)
                resp.set_header("MLBench-Source", source)
        _send(req, resp, query, formats.write_one(content, query.format, title))

    @operation("list_run_metrics", "The metrics, sorted by name.", list[RunMetric], errors=(503,))
    def on_get_run(self, req: Request, resp: Response, run_id: int) -> None:
        """List the metrics that a run has recorded so far."""
        resp.media = self.reader.metrics(lifecycle.find(run_id))


def _send(req: Request, resp: Response, query: SeriesQuery, answer: FormattedSeries) -> None:
    # Wait for the first chunk, so that its errors become an error response.
    chunks = chain([next(answer.chunks)], answer.chunks)
    # Only summaries are compressed: a full download takes longer to compress than to send.
    resp.stream = compressed(req, resp, chunks) if query.summarize else chunks
    resp.content_type = answer.content_type
    if answer.file_name:
        offer_file(resp, answer.file_name)
