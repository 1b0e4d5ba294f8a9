"""The client of the master's REST API."""

import json
import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TypeVar, Unpack, cast
from urllib.parse import quote

import msgspec

from mlbench import names
from mlbench.address import Address, parse_address
from mlbench.discovery import HINT_ELSEWHERE, Place, find_connection, find_pod, find_service
from mlbench.errors import ApiError
from mlbench.home import Connection, Home
from mlbench.names import RunState, StreamName
from mlbench.original import MLBENCH_BACKENDS, MLBENCH_IMAGES, image_name
from mlbench.records import (
    Alert,
    Benchmark,
    Imported,
    Info,
    LogPage,
    LogSearch,
    Manifest,
    Planned,
    Pod,
    Point,
    Record,
    Run,
    RunAlert,
    RunCounts,
    RunEvent,
    RunField,
    RunFile,
    RunGroup,
    RunSet,
    Series,
    Verification,
)
from mlbench.runspec import RunOptions
from mlbench.transport import Answer, HttpClient, OnProgress, Params

if TYPE_CHECKING:
    from mlbench.autopsy import Autopsy
    from mlbench.comparisons import Comparison
    from mlbench.profiles import RankProfile
    from mlbench.results import Goodput, Result
    from mlbench.sweeps import SetAnalysis

__all__ = ["MLBENCH_BACKENDS", "MLBENCH_IMAGES", "ApiClient", "Sample"]

Format = Literal["zip", "csv", "json", "mllog"]

_Moment = datetime | str
_Names = str | Sequence[str]
_Value = TypeVar("_Value")
_Some = TypeVar("_Some", bound=Record)


@dataclass(frozen=True)
class Sample:
    """A value to add to a run or to a pod: give one of ``run_id`` and ``pod_name``."""

    name: str
    """Of the metric; `` @ RANK`` at its end makes it a rank's."""
    value: float | str
    date: datetime | str = field(default_factory=lambda: datetime.now(UTC))
    run_id: int | str | None = None
    pod_name: str | None = None
    cumulative: bool = False
    """Whether the values of this metric only ever grow."""
    metadata: object = ""
    """Anything that JSON can hold."""

    def to_fields(self) -> dict[str, object]:
        """Return the sample as the API takes it, without fields that have their default."""
        return _given(
            run_id=self.run_id,
            pod_name=self.pod_name,
            name=self.name,
            value=_json_value(self.value),
            date=_time(self.date),
            cumulative=self.cumulative or None,
            metadata=None if self.metadata == "" else self.metadata,
        )


class ApiClient:
    """A client of one master. Every method returns at once, with a future.

    ``future.result()`` waits for the ``Answer``: its ``value`` is typed; its ``json()``,
    ``status_code`` and ``content`` are what was received. It raises ``ApiError`` if the master
    refuses, and ``NoAnswerError`` if it does not answer, or breaks off. Threads may share a client.

    Requests are repeated for a few seconds if the connection was refused, and, if carrying them out
    twice does no harm, also if it broke or the master asks for it (503 with Retry-After).

        with ApiClient(url="127.0.0.1:8000", token="…") as client:
            runs = client.get_runs().result().value
    """

    def __init__(
        self,
        max_workers: int = 5,
        in_cluster: bool = True,
        label_selector: str = "component=master,app=mlbench",
        k8s_namespace: str = "default",
        url: str | None = None,
        load_config: bool = True,
        *,
        service_name: str | None = None,
        token: str | None = None,
        timeout_seconds: float = 30.0,
        hint: str | None = None,
    ) -> None:
        """Find the master; without ``url`` by asking the Kubernetes API.

        Args:
            max_workers: how many requests are sent at a time.
            in_cluster: whether this runs in a pod of the master's cluster. It connects to the
                master's pod then, otherwise to its service.
            label_selector: labels of the master's pod and service.
            k8s_namespace: where MLBench is installed.
            url: where the master is, ``host:port/path`` or a whole URL. It may have the token, as
                in ``user:TOKEN@host:port``.
            load_config: whether to load the credentials for Kubernetes: the pod's service account
                inside a cluster, kubectl's outside. Otherwise the ``kubernetes`` package's default
                configuration is used.
            service_name: the master's service, if several have its labels.
            token: the user's token; by default the one in ``url``, or $MLBENCH_TOKEN.
            timeout_seconds: how long to wait for the master to send something.
            hint: what to do if it does not answer, for the error message.

        Raises:
            DiscoveryError: the master was not found in the cluster.
            MLBenchError: ``url`` is not an address.
        """
        if url is not None:
            address = parse_address(url)
        else:
            place = Place(k8s_namespace, label_selector, service_name)
            find = find_pod if in_cluster else find_service
            address = find(place, load_config=load_config)
        token = token or address.token or os.environ.get(names.ENV_TOKEN)
        address = Address(address.url, token, hint or address.hint)
        self._http = HttpClient(address, timeout_seconds, max_workers)

    @classmethod
    def from_home(cls, home: Home | None = None) -> "ApiClient":
        """Connect to the stack of a home folder, or else as ``find_connection`` says."""
        return cls.from_connection(home.read_connection() if home else find_connection())

    @classmethod
    def from_connection(cls, connection: Connection) -> "ApiClient":
        """Connect to the master of a connection."""
        hint = HINT_ELSEWHERE if connection.elsewhere else None
        return cls(url=connection.url, token=connection.token, hint=hint)

    def __enter__(self) -> "ApiClient":
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._http.close(cancel=error is not None)

    def close(self) -> None:
        """Wait for the requests, and close the connections."""
        self._http.close()

    # --- Runs ---

    def get_runs(
        self,
        *,
        from_id: int = 0,
        before: int | None = None,
        limit: int | None = None,
        state: RunState | None = None,
        query: str | None = None,
        order: str | None = None,
        columns: Sequence[str] = (),
    ) -> Future[Answer[list[Run]]]:
        """Get all runs, the oldest first, or some of them.

        Args:
            from_id: only runs from this id on.
            before: only runs with ids below this one.
            limit: only the newest so many, or the first in their order.
            state: only runs in this state.
            query: only runs that match, such as ``exchange=topk accuracy>95 some words``.
            order: the field that they are sorted by; with ``-`` before it, the largest first.
            columns: the fields whose values they shall have.
        """
        wanted = _given(
            from_id=from_id or None,
            before=before,
            limit=limit,
            state=state,
            q=query or None,
            order=order,
            columns=",".join(columns) or None,
        )
        return self._get("/api/runs/", _list_of(Run), wanted)

    def count_runs(self, *, query: str | None = None) -> Future[Answer[RunCounts]]:
        """Get how many runs there are, and in each state of those that match a query."""
        return self._get("/api/runs/counts/", _one(RunCounts), _given(q=query or None))

    def group_runs(
        self,
        by: Sequence[str],
        *,
        query: str | None = None,
        state: RunState | None = None,
        order: str | None = None,
        columns: Sequence[str] = (),
    ) -> Future[Answer[list[RunGroup]]]:
        """Get all runs that match in groups, with the means of some fields.

        Args:
            by: the fields whose values the runs of a group share.
            query: only runs that match.
            state: only runs in this state.
            order: the field, mean or number of ``runs`` that groups are sorted by, ``-`` before it
                for the largest first.
            columns: the fields whose means they shall have, with intervals.
        """
        wanted = _given(
            group=",".join(by),
            q=query or None,
            state=state,
            order=order,
            columns=",".join(columns) or None,
        )
        return self._get("/api/runs/groups/", _list_of(RunGroup), wanted)

    def get_run_fields(self) -> Future[Answer[list[RunField]]]:
        """Get the fields that queries, orders and columns may name."""
        return self._get("/api/runs/fields/", _list_of(RunField))

    def get_run(self, run_id: int | str) -> Future[Answer[Run]]:
        """Get a run."""
        return self._get(_run(run_id), _one(Run))

    def create_run(
        self,
        name: str,
        num_workers: int,
        num_cpus: float | None = 2.0,
        max_bandwidth: float | None = 1000,
        image: str | None = None,
        backend: str | None = None,
        custom_image_name: str | None = None,
        custom_image_command: str | None = None,
        custom_backend: str | None = None,
        run_all_nodes: bool = False,
        gpu_enabled: bool = False,
        light_target: bool = False,
        **options: Unpack[RunOptions],
    ) -> Future[Answer[Run]]:
        """Order a run, which starts as soon as there are workers.

        One of ``benchmark``, ``image`` and ``custom_image_name`` says what to run. An order is
        never sent twice: after a ``NoAnswerError``, look with ``get_runs`` whether it arrived.

        Args:
            name: any text.
            num_workers: worker pods, one rank each unless the command starts several processes.
            num_cpus: cores of each worker; None for its share of them, where there are fewer.
            max_bandwidth: between workers, in Mbit/s. Where it cannot be limited to 1000, that
                asks for nothing, as None does.
            image: an official benchmark: a key of ``MLBENCH_IMAGES``, or what stands for it there.
            backend: one of ``MLBENCH_BACKENDS``, in any case.
            custom_image_name: any image, to run ``custom_image_command`` in.
            custom_image_command: the command.
            custom_backend: a backend that the master does not know, instead of ``backend``.
            run_all_nodes: with ``custom_backend``, run the command on every worker, not only on
                rank 0.
            gpu_enabled: give the workers GPUs.
            light_target: aim for the easier goal.
            options: ``benchmark``, ``seed``, ``queue`` and others: see ``RunOptions``.

        Raises:
            ValueError: two arguments exclude each other.
        """
        _refuse_both(image=image, custom_image_name=custom_image_name)
        _refuse_both(backend=backend, custom_backend=custom_backend)
        is_custom = custom_image_name is not None or custom_image_command is not None
        order = _given(
            name=name,
            num_workers=num_workers,
            num_cpus=num_cpus,
            max_bandwidth=max_bandwidth,
            image_name="custom_image" if is_custom else image_name(image),
            custom_image_name=custom_image_name,
            custom_image_command=custom_image_command,
            backend="custom_backend" if custom_backend is not None else backend,
            custom_backend=custom_backend,
            run_all_nodes=run_all_nodes or None,
            gpu_enabled=gpu_enabled or None,
            light_target=light_target or None,
            **options,
        )
        return self._http.request("POST", "/api/runs/", _one(Run), body=order, repeatable=False)

    def stop_run(self, run_id: int | str) -> Future[Answer[Run]]:
        """Ask for a run to be stopped. It has stopped when its state is STOPPED."""
        return self._http.request("POST", f"{_run(run_id)}stop/", _one(Run))

    def edit_run(
        self,
        run_id: int | str,
        *,
        title: str | None = None,
        tags: Sequence[str] | None = None,
        add_tags: Sequence[str] = (),
        remove_tags: Sequence[str] = (),
        note: str | None = None,
    ) -> Future[Answer[Run]]:
        """Change what is said of a run, also after its end; None leaves as it is.

        Args:
            run_id: the run.
            title: what it is to be called; empty for its own name.
            tags: all of its tags.
            add_tags: tags that it gets besides, whatever others add at the same time.
            remove_tags: tags that it has no more.
            note: a text in Markdown.
        """
        changed = {"add_tags": [*add_tags], "remove_tags": [*remove_tags]}
        body = _given(title=title, tags=tags, note=note) | changed
        return self._http.request("PATCH", _run(run_id), _one(Run), body=body)

    def verify_run(
        self, run_id: int | str, *, restore: bool = False
    ) -> Future[Answer[Verification]]:
        """Verify a run's archive, by itself and against what Prometheus has.

        Args:
            run_id: a run that has ended.
            restore: whether to write what Prometheus lacks, if it is not older than 23 hours.
        """
        path = f"{_run(run_id)}verification/?restore={str(restore).lower()}"
        return self._http.request("POST", path, _one(Verification))

    def delete_run(self, run_id: int | str, *, keep_archive: bool = False) -> Future[Answer[None]]:
        """Delete a run with its series, and with its archive unless that is kept.

        One that is active is stopped first, and then gone as soon as it ends.
        """
        # Not repeated: the second request would find no run if the first was carried out.
        return self._http.request(
            "DELETE",
            _run(run_id),
            lambda content: None,
            params={"keep_archive": "true"} if keep_archive else {},
            repeatable=False,
        )

    def get_run_events(self, run_id: int | str) -> Future[Answer[list[RunEvent]]]:
        """Get what has happened to a run so far, in order of time."""
        return self._get(f"{_run(run_id)}events/", _list_of(RunEvent))

    def get_autopsy(self, run_id: int | str, *, evidence: bool = True) -> "Future[Answer[Autopsy]]":
        """Get why a run does not go on, as its ranks told when they were last asked."""
        from mlbench.autopsy import Autopsy  # noqa: PLC0415 - as in get_result

        params = {} if evidence else {"evidence": "false"}
        return self._get(f"{_run(run_id)}autopsy/", _one(Autopsy), params)

    def ask_autopsy(
        self, run_id: int | str, *, native: int | None = None
    ) -> "Future[Answer[Autopsy]]":
        """Ask the ranks of a run that is running; ``get_autopsy`` has their answers within 20 s.

        Of the rank ``native``, they are asked for the frames of C too, for which it stands still.
        """
        from mlbench.autopsy import Autopsy  # noqa: PLC0415 - as in get_result

        params = {} if native is None else {"native": native}
        return self._http.request("POST", f"{_run(run_id)}autopsy/", _one(Autopsy), params=params)

    def get_profiles(self, run_id: int | str) -> "Future[Answer[list[RankProfile]]]":
        """Get the profiles of a run's ranks, the last five; their files are among the run's."""
        from mlbench.profiles import RankProfile  # noqa: PLC0415 - as in get_result

        return self._get(f"{_run(run_id)}profiles/", _list_of(RankProfile))

    def ask_profile(
        self, run_id: int | str, *, rank: int = 0, seconds: int = 5
    ) -> "Future[Answer[RankProfile]]":
        """Profile a rank for some seconds, at most 60; ``get_profiles`` tells once it is done."""
        from mlbench.profiles import RankProfile  # noqa: PLC0415 - as in get_result

        path, body = f"{_run(run_id)}profiles/", {"rank": rank, "seconds": seconds}
        return self._http.request("POST", path, _one(RankProfile), body=body, repeatable=False)

    def inject_fault(
        self, run_id: int | str, fault: str, *, rank: int = 0
    ) -> Future[Answer[RunEvent]]:
        """Have a failure such as ``kill`` or ``stop:5s`` hit a rank of a run, within seconds."""
        body = {"fault": fault, "rank": rank}
        path = f"{_run(run_id)}faults/"
        # Not repeated: it would hit the run twice.
        return self._http.request("POST", path, _one(RunEvent), body=body, repeatable=False)

    def get_files(
        self, run_id: int | str, *, attempt: int | None = None
    ) -> Future[Answer[list[RunFile]]]:
        """Get what each rank left in ``$MLBENCH_OUTPUT``: by default in the latest attempt."""
        params = _given(attempt=attempt)
        return self._get(f"{_run(run_id)}files/", _list_of(RunFile), params)

    def download_file(self, run_id: int | str, wanted: RunFile, file: BinaryIO) -> int:
        """Write the content of one of a run's files to a file; return its size in bytes.

        Errors are those of ``download``.
        """
        params = _given(rank=wanted.rank, attempt=wanted.attempt)
        path = f"{_run(run_id)}files/{quote(wanted.name)}"
        return self._http.download(path, params, file, None)

    def get_manifest(self, run_id: int | str) -> Future[Answer[Manifest]]:
        """Get what a run's result depends on: code, settings, machines and versions."""
        return self._get(f"{_run(run_id)}manifest/", _one(Manifest))

    # --- Archives ---

    def find_run(self, wanted: str) -> Run | None:
        """Return the run with an id, or the newest one with a name of either kind, in this thread.

        None if no run has the name.

        Raises:
            ApiError: there is no run with the id.
        """
        if wanted.isascii() and wanted.isdecimal():
            return self.get_run(int(wanted)).result().value
        words = " ".join(f'"{part}"' for part in wanted.split('"'))
        runs = self.get_runs(query=words).result().value
        named = [run for run in runs if wanted in {run.name, run.own_name, run.title}]
        return named[-1] if named else None

    def download_archive(self, run_id: int | str, file: BinaryIO) -> int:
        """Write a run's archive to a file, in this thread, and return its size in bytes."""
        return self._http.download(f"{_run(run_id)}archive/", {}, file, None)

    def import_archive(self, file: BinaryIO) -> Answer[Imported]:
        """Import the run of an archive, in this thread.

        ApiError if the file is no archive, is damaged, or is too large.
        """
        return self._http.upload("/api/archives/", _one(Imported), file)

    # --- Benchmark sets ---

    def create_set(
        self,
        name: str,
        places: Sequence[Planned],
        *,
        official: bool = False,
        until_percent: float | None = None,
        **order: Any,
    ) -> Future[Answer[RunSet]]:
        """Register a set, so that its runs can be ordered; the same once more is the same set.

        Args:
            name: what the names of its runs begin with.
            places: the number of workers, the seed and the swept values of each run, in order.
            official: whether to follow MLPerf's rules.
            until_percent: how well every mean is to be known for the set to end early.
            order: what all runs are ordered with: arguments of ``create_run``.
        """
        if order.get("custom_image_name") is not None:
            order["image_name"] = "custom_image"
        body = _given(
            name=name,
            places=[_given(**vars(place) | {"faults": None}) for place in places],
            official=official or None,
            until_percent=until_percent,
            **order,
        )
        return self._http.request("POST", "/api/sets/", _one(RunSet), body=body)

    def get_set_analysis(self, name: str) -> "Future[Answer[SetAnalysis]]":
        """Get what a set has shown so far, and how long the rest of it takes."""
        from mlbench.sweeps import SetAnalysis  # noqa: PLC0415 - as in get_result

        return self._get(f"{_set(name)}analysis/", _one(SetAnalysis))

    def get_sets(self) -> Future[Answer[list[RunSet]]]:
        """Get all sets, the oldest first."""
        return self._get("/api/sets/", _list_of(RunSet))

    def get_set(self, name: str) -> Future[Answer[RunSet]]:
        """Get a set: what was registered, and what became of it."""
        return self._get(_set(name), _one(RunSet))

    def create_set_run(self, name: str, place: int, *, queue: bool = False) -> Future[Answer[Run]]:
        """Order the run of a set's place, as it was registered. An order is never sent twice."""
        body = _given(place=place, queue=queue or None)
        path = f"{_set(name)}runs/"
        return self._http.request("POST", path, _one(Run), body=body, repeatable=False)

    # --- Results ---

    def get_result(
        self,
        run_id: int | str,
        *,
        goal: str | None = None,
        after_seconds: float | None = None,
        price: float | None = None,
    ) -> "Future[Answer[Result]]":
        """Get the result of a run; of one that has not ended, the result so far.

        Args:
            run_id: the run.
            goal: replaces the run's own goal, e.g. ``"val_loss<=0.1"`` or ``"acc>=97"``.
            after_seconds: the time of accuracy after time, instead of the run's deadline or 2 h.
            price: of a worker-second, in any currency.
        """
        from mlbench.results import Result  # noqa: PLC0415 - its classes take a while to make

        params = _given(goal=goal, after=after_seconds, price=price)
        return self._get(f"{_run(run_id)}result/", _one(Result), params)

    def get_goodput(self, run_id: int | str) -> "Future[Answer[Goodput]]":
        """Get where every worker-second of a run went, or so far; empty before its start."""
        from mlbench.results import Goodput  # noqa: PLC0415 - as in get_result

        return self._get(f"{_run(run_id)}goodput/", _one(Goodput))

    def compare(
        self,
        run_ids: Sequence[int | str],
        *,
        goal: str | None = None,
        after_seconds: float | None = None,
        price: float | None = None,
    ) -> "Future[Answer[Comparison]]":
        """Get up to 200 runs side by side, and whether they can be compared.

        The options are those of ``get_result``.
        """
        from mlbench.comparisons import Comparison  # noqa: PLC0415 - its classes take a while to make

        runs = ",".join(map(str, run_ids))
        params = _given(runs=runs, goal=goal, after=after_seconds, price=price)
        return self._get("/api/compare/", _one(Comparison), params)

    # --- Logs ---

    def get_logs(
        self,
        run_id: int | str,
        rank: int = 0,
        stream: StreamName = "stdout",
        *,
        offset: int = 0,
        tail: int | None = None,
        before: int | None = None,
        attempt: int | None = None,
    ) -> Future[Answer[LogPage]]:
        """Get a piece of a rank's log.

        Args:
            run_id: the run.
            rank: who wrote it.
            stream: what it was written to.
            offset: the piece that begins at this byte.
            tail: instead, this many of the last lines.
            before: instead, the lines that end at this byte, as many as fit into an answer.
            attempt: of the run; by default the latest one.
        """
        where = {"before": before, "tail": tail, "offset": offset}
        chosen = next(name for name, place in where.items() if place is not None)
        params = _given(rank=rank, stream=stream, attempt=attempt) | {chosen: where[chosen]}
        return self._get(f"{_run(run_id)}logs/", _one(LogPage), params)

    def search_logs(
        self,
        run_id: int | str,
        text: str,
        rank: int = 0,
        stream: StreamName = "stdout",
        *,
        offset: int = 0,
        attempt: int | None = None,
    ) -> Future[Answer[LogSearch]]:
        """Search a rank's log from an offset on for lines with a text, ignoring case.

        An answer has the first such lines. Ask again from its ``offset`` unless it is
        ``complete``.
        """
        params = _given(rank=rank, stream=stream, attempt=attempt, search=text, offset=offset)
        return self._get(f"{_run(run_id)}logs/", _one(LogSearch), params)

    def download_log(
        self,
        run_id: int | str,
        file: BinaryIO,
        rank: int = 0,
        stream: StreamName = "stdout",
        *,
        attempt: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> int:
        """Write a rank's whole log to a file, in this thread, and return its size in bytes.

        Options and errors are those of ``get_logs`` and ``download``.
        """
        params = _given(rank=rank, stream=stream, attempt=attempt, format="text")
        return self._http.download(f"{_run(run_id)}logs/", params, file, on_progress)

    # --- Metrics ---

    def get_run_metrics(
        self,
        run_id: int | str,
        since: _Moment | None = None,
        summarize: int | None = None,
        metric_filter: _Names | None = None,
        last_n: int | None = None,
        *,
        until: _Moment | None = None,
        line: Literal["kept", "abandoned", "all"] = "kept",
    ) -> Future[Answer[Series]]:
        """Get a run's series by name, such as ``train_loss @ 0``, each in order of time.

        Args:
            run_id: the run.
            since: only what is newer; a datetime without a zone is in UTC.
            summarize: at most this many points of each series, averaged.
            metric_filter: only this metric of all ranks, or this series, or several of them.
            last_n: only the last points of each series.
            until: only what is dated up to this moment.
            line: of a run that was restarted, what led to its last model, the rest, or both.
        """
        params = _selection("run", since, summarize, metric_filter, last_n, until)
        return self._get(_metrics(run_id), _series, {**params, "line": line})

    def get_pod_metrics(
        self,
        pod_id: str,
        since: _Moment | None = None,
        summarize: int | None = None,
        *,
        metric_filter: _Names | None = None,
        last_n: int | None = None,
        until: _Moment | None = None,
    ) -> Future[Answer[Series]]:
        """Get a pod's series by name, each in order of time.

        ``pod_id`` is the pod's name; the options are those of ``get_run_metrics``.
        """
        params = _selection("pod", since, summarize, metric_filter, last_n, until)
        return self._get(_metrics(pod_id), _series, params)

    def get_all_metrics(
        self,
        *,
        since: _Moment | None = None,
        summarize: int | None = None,
        metric_filter: _Names | None = None,
        last_n: int | None = None,
        until: _Moment | None = None,
    ) -> Future[Answer[dict[str, Series]]]:
        """Get the series of all worker pods, by the pods' names, and of all runs, by their ids.

        The options are those of ``get_run_metrics``. The future raises ApiError if the series of
        one of them are no longer complete; the others can still be asked for one by one.
        """
        params = _selection("all", since, summarize, metric_filter, last_n, until)
        return self._get("/api/metrics/", _series_by_owner, params)

    def download_run_metrics(
        self, run_id: int | str, since: _Moment | None = None, summarize: int | None = None
    ) -> Future[Answer[bytes]]:
        """Get a run's series as the bytes of a zip file; ``download`` needs less memory."""
        params = _selection("run", since, summarize) | {"format": "zip"}
        return self._get(_metrics(run_id), bytes, params)

    def download(
        self,
        run_id: int | str,
        file: BinaryIO,
        *,
        format: Format = "zip",  # noqa: A002 - as the API calls it
        since: _Moment | None = None,
        summarize: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> int:
        """Write a run's series to a file, in this thread, and return its size in bytes.

        Args:
            run_id: the run.
            file: open for writing. After an error it holds a part of the answer.
            format: of the file. ``mllog`` is that of MLPerf's logging, of the whole run, for its
                compliance checker.
            since: only what is newer; a datetime without a zone is in UTC.
            summarize: at most this many points of each series, averaged.
            on_progress: called after each piece with the bytes received so far, and with all
                there will be, if the master says.
        """
        if format == "mllog":
            return self._http.download(f"{_run(run_id)}mllog/", {}, file, on_progress)
        params = _selection("run", since, summarize) | {"format": format}
        return self._http.download(_metrics(run_id), params, file, on_progress)

    def post_metric(
        self,
        run_id: int | str,
        name: str,
        value: float | str,
        cumulative: bool = False,
        metadata: object = "",
        date: _Moment | None = None,
    ) -> Future[Answer[Point]]:
        """Add a sample to a run. It can be read as soon as there is an answer: the stored point.

        The options are those of ``Sample``; a date without a zone is in UTC.
        """
        sample = Sample(name, value, date or datetime.now(UTC), run_id, None, cumulative, metadata)
        return self._http.request("POST", "/api/metrics/", _one(Point), body=sample.to_fields())

    def post_metrics(self, samples: Sequence[Sample]) -> Future[Answer[int]]:
        """Add up to 10,000 samples to runs or pods, and get their number.

        If one is wrong, none is added.
        """
        body = [sample.to_fields() for sample in samples]
        return self._http.request(
            "POST", "/api/metrics/", lambda content: int(json.loads(content)["count"]), body=body
        )

    # --- The installation ---

    def get_worker_pods(self) -> Future[Answer[list[Pod]]]:
        """Get all worker pods."""
        return self._get("/api/pods/", _list_of(Pod))

    def get_benchmarks(self) -> Future[Answer[list[Benchmark]]]:
        """Get the official benchmarks."""
        return self._get("/api/benchmarks/", _list_of(Benchmark))

    def get_run_alerts(self, run_id: int | str) -> Future[Answer[list[RunAlert]]]:
        """Get the alerts that fired about a run, in order of time."""
        return self._get(f"{_run(run_id)}alerts/", _list_of(RunAlert))

    def get_alerts(self) -> Future[Answer[list[Alert]]]:
        """Get the alerts that fire, the oldest first."""
        return self._get("/api/alerts/", _list_of(Alert))

    def get_info(self) -> Future[Answer[Info]]:
        """Get the version and pool of the installation, and what a run may ask for."""
        return self._get("/api/info/", _one(Info))

    def _get(
        self, path: str, decode: Callable[[bytes], _Value], params: Params | None = None
    ) -> Future[Answer[_Value]]:
        return self._http.request("GET", path, decode, params=params)


# --- What is sent ---


def _run(run_id: int | str) -> str:
    return f"/api/runs/{quote(str(run_id), safe='')}/"


def _set(name: str) -> str:
    return f"/api/sets/{quote(name, safe='')}/"


def _metrics(name: int | str) -> str:
    return f"/api/metrics/{quote(str(name), safe='')}/"


def _given(**fields: Any) -> dict[str, Any]:
    """Return the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def _selection(
    metric_type: str,
    since: _Moment | None,
    summarize: int | None,
    metric_filter: _Names | None = None,
    last_n: int | None = None,
    until: _Moment | None = None,
) -> dict[str, Any]:
    return _given(
        metric_type=metric_type,
        since=None if since is None else _time(since),
        until=None if until is None else _time(until),
        summarize=summarize,
        metric_filter=metric_filter,
        last_n=last_n,
    )


def _time(moment: _Moment) -> str:
    """Return a time as the API takes it; a datetime without a zone is in UTC."""
    if isinstance(moment, str):
        return moment
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return f"{aware.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def _json_value(value: float | str) -> float | str:
    """Return a value as JSON can hold it: NaN and the infinities as texts."""
    if isinstance(value, (int, str)):
        return value
    number = float(value)  # numpy's floats need not be Python's
    return number if math.isfinite(number) else str(number)


def _refuse_both(**arguments: object) -> None:
    if all(value is not None for value in arguments.values()):
        raise ValueError(f"{' and '.join(arguments)} exclude each other")


# --- What is received ---


def _one(record: type[_Some]) -> Callable[[bytes], _Some]:
    return lambda content: record.from_fields(json.loads(content))


def _list_of(record: type[_Some]) -> Callable[[bytes], list[_Some]]:
    return lambda content: [record.from_fields(fields) for fields in json.loads(content)]


def _series(content: bytes) -> Series:
    return msgspec.json.decode(content, type=Series)


def _series_by_owner(content: bytes) -> dict[str, Series]:
    found = msgspec.json.decode(content, type=dict[str, Series | str])
    for answer in found.values():
        if isinstance(answer, str):  # why its series are not complete
            raise ApiError(HTTPStatus.BAD_GATEWAY, answer)
    return cast("dict[str, Series]", found)
