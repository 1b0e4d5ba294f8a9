"""API calls about runs: submission, editing, output files and archives."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, BinaryIO, Unpack
from urllib.parse import quote

from mlbench.client.base import ApiBase, api_path, decoder, drop_none
from mlbench.client.transport import Response
from mlbench.contract.names import RunState
from mlbench.contract.original import MLBENCH_IMAGES
from mlbench.contract.records import (
    Imported,
    Manifest,
    Run,
    RunAlert,
    RunCounts,
    RunEvent,
    RunField,
    RunFile,
    RunGroup,
    Verification,
)
from mlbench.contract.runspec import RunOptions

if TYPE_CHECKING:
    from mlbench.contract.diagnosis import Diagnosis
    from mlbench.contract.profiles import RankProfile


class RunsApi(ApiBase):
    """Calls about runs."""

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
    ) -> Future[Response[list[Run]]]:
        """List runs, oldest first unless ``order`` is given.

        Args:
            from_id: lowest run id to return.
            before: return only runs with an id below this one.
            limit: maximum number of runs: the newest ones, or the first ones of ``order``.
            state: return only runs in this state.
            query: search terms, e.g. ``exchange=topk accuracy>95 some words``.
            order: field to sort by; prefix ``-`` for descending.
            columns: extra fields to include with each run.
        """
        params = drop_none(
            from_id=from_id or None,
            before=before,
            limit=limit,
            state=state,
            query=query or None,
            order=order,
            columns=",".join(columns) or None,
        )
        return self._get("/api/runs/", list[Run], params)

    def count_runs(self, *, query: str | None = None) -> Future[Response[RunCounts]]:
        """Get the number of runs, and of runs in each state that match a query."""
        return self._get("/api/runs/counts/", RunCounts, drop_none(query=query or None))

    def group_runs(
        self,
        by: Sequence[str],
        *,
        query: str | None = None,
        state: RunState | None = None,
        order: str | None = None,
        columns: Sequence[str] = (),
    ) -> Future[Response[list[RunGroup]]]:
        """Get all runs that match in groups, with the means of some fields.

        Args:
            by: the fields whose values the runs of a group share.
            query: only runs that match.
            state: only runs in this state.
            order: the field, mean or number of ``runs`` that groups are sorted by, ``-`` before it
                for the largest first.
            columns: the fields whose means they shall have, with intervals.
        """
        params = drop_none(
            group=",".join(by),
            query=query or None,
            state=state,
            order=order,
            columns=",".join(columns) or None,
        )
        return self._get("/api/runs/groups/", list[RunGroup], params)

    def get_run_fields(self) -> Future[Response[list[RunField]]]:
        """Get the fields that queries, orders and columns may name."""
        return self._get("/api/runs/fields/", list[RunField])

    def get_run(self, run_id: int | str) -> Future[Response[Run]]:
        """Get a run."""
        return self._get(api_path("runs", run_id), Run)

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
    ) -> Future[Response[Run]]:
        """Submit a run, which starts as soon as workers are available.

        Set one of ``benchmark``, ``image`` and ``custom_image_name``. The request is never
        repeated: after a ``NoResponseError``, check with ``get_runs`` whether it arrived.

        Args:
            name: any text.
            num_workers: worker pods, one rank each unless the command starts several processes.
            num_cpus: cores of each worker; None for its share of them, where there are fewer.
            max_bandwidth: between workers, in Mbit/s. In installations that cannot limit it, 1000
                means no limit, like None.
            image: an official benchmark: a key or a value of ``MLBENCH_IMAGES``.
            backend: one of ``MLBENCH_BACKENDS``, in any case.
            custom_image_name: any image, to run ``custom_image_command`` in.
            custom_image_command: the command.
            custom_backend: a backend that the master does not know, instead of ``backend``.
            run_all_nodes: with ``custom_backend``, run the command on every worker, not only on
                rank 0.
            gpu_enabled: give the workers GPUs.
            light_target: aim for the easier target.
            options: ``benchmark``, ``seed``, ``queue`` and others: see ``RunOptions``.

        Raises:
            ValueError: two arguments exclude each other.
        """
        _refuse_both(image=image, custom_image_name=custom_image_name)
        _refuse_both(backend=backend, custom_backend=custom_backend)
        if image is not None and image in MLBENCH_IMAGES:
            image = MLBENCH_IMAGES[image][0]
        is_custom = custom_image_name is not None or custom_image_command is not None
        body = drop_none(
            name=name,
            num_workers=num_workers,
            num_cpus=num_cpus,
            max_bandwidth=max_bandwidth,
            image_name="custom_image" if is_custom else image,
            custom_image_name=custom_image_name,
            custom_image_command=custom_image_command,
            backend="custom_backend" if custom_backend is not None else backend,
            custom_backend=custom_backend,
            run_all_nodes=run_all_nodes or None,
            gpu_enabled=gpu_enabled or None,
            light_target=light_target or None,
            **options,
        )
        return self._post("/api/runs/", Run, body, repeatable=False)

    def stop_run(self, run_id: int | str) -> Future[Response[Run]]:
        """Request to stop a run. It has stopped when its state is STOPPED."""
        return self._post(api_path("runs", run_id, "stop"), Run)

    def edit_run(
        self,
        run_id: int | str,
        *,
        title: str | None = None,
        tags: Sequence[str] | None = None,
        add_tags: Sequence[str] = (),
        remove_tags: Sequence[str] = (),
        note: str | None = None,
    ) -> Future[Response[Run]]:
        """Change the title, tags or note of a run, also after its end; None changes nothing.

        Args:
            run_id: the run.
            title: the new title; empty for the original name.
            tags: all tags, replacing the existing ones.
            add_tags: tags to add; concurrent additions by others are kept.
            remove_tags: tags to remove.
            note: a note in Markdown.
        """
        changed = {"add_tags": [*add_tags], "remove_tags": [*remove_tags]}
        body = drop_none(title=title, tags=tags, note=note) | changed
        return self._http.request("PATCH", api_path("runs", run_id), decoder(Run), body=body)

    def verify_run(self, run_id: int | str) -> Future[Response[Verification]]:
        """Verify the archive of a run that has ended, and that Prometheus has its samples."""
        return self._post(api_path("runs", run_id, "verification"), Verification)

    def delete_run(
        self, run_id: int | str, *, keep_archive: bool = False
    ) -> Future[Response[None]]:
        """Delete a run with its series, and with its archive unless that is kept.

        One that is active is stopped first, and then gone as soon as it ends.
        """
        # Not repeated: the second request would find no run if the first was carried out.
        return self._http.request(
            "DELETE",
            api_path("runs", run_id),
            lambda content: None,
            params={"keep_archive": "true"} if keep_archive else {},
            repeatable=False,
        )

    def get_run_events(self, run_id: int | str) -> Future[Response[list[RunEvent]]]:
        """Get what has happened to a run so far, in order of time."""
        return self._get(api_path("runs", run_id, "events"), list[RunEvent])

    def get_run_alerts(self, run_id: int | str) -> Future[Response[list[RunAlert]]]:
        """Get the alerts that fired about a run, in order of time."""
        return self._get(api_path("runs", run_id, "alerts"), list[RunAlert])

    def get_diagnosis(
        self, run_id: int | str, *, evidence: bool = True
    ) -> "Future[Response[Diagnosis]]":
        """Get the latest hang diagnosis of a run."""
        from mlbench.contract.diagnosis import Diagnosis  # noqa: PLC0415 - its classes take a while to make

        params = {} if evidence else {"evidence": "false"}
        return self._get(api_path("runs", run_id, "diagnosis"), Diagnosis, params)

    def ask_diagnosis(
        self, run_id: int | str, *, native: int | None = None
    ) -> "Future[Response[Diagnosis]]":
        """Request a diagnosis of a running run; ``get_diagnosis`` returns it within 20 s.

        The rank ``native`` also reports its C frames, and is paused for that.
        """
        from mlbench.contract.diagnosis import Diagnosis  # noqa: PLC0415 - its classes take a while to make

        params = {} if native is None else {"native": native}
        return self._post(api_path("runs", run_id, "diagnosis"), Diagnosis, params=params)

    def get_profiles(self, run_id: int | str) -> "Future[Response[list[RankProfile]]]":
        """Get the last five profiles of a run; their files are among the files of the run."""
        from mlbench.contract.profiles import RankProfile  # noqa: PLC0415 - its classes take a while to make

        return self._get(api_path("runs", run_id, "profiles"), list[RankProfile])

    def ask_profile(
        self, run_id: int | str, *, rank: int = 0, seconds: int = 5
    ) -> "Future[Response[RankProfile]]":
        """Profile a rank for up to 60 seconds; ``get_profiles`` returns the profile when done."""
        from mlbench.contract.profiles import RankProfile  # noqa: PLC0415 - its classes take a while to make

        path, body = api_path("runs", run_id, "profiles"), {"rank": rank, "seconds": seconds}
        return self._post(path, RankProfile, body, repeatable=False)

    def inject_fault(
        self, run_id: int | str, fault: str, *, rank: int = 0
    ) -> Future[Response[RunEvent]]:
        """Have a failure such as ``kill`` or ``stop:5s`` hit a rank of a run, within seconds."""
        path, body = api_path("runs", run_id, "faults"), {"fault": fault, "rank": rank}
        # Not repeated: it would hit the run twice.
        return self._post(path, RunEvent, body, repeatable=False)

    def get_files(
        self, run_id: int | str, *, attempt: int | None = None
    ) -> Future[Response[list[RunFile]]]:
        """Get the output files of each rank, by default of the latest attempt."""
        params = drop_none(attempt=attempt)
        return self._get(api_path("runs", run_id, "files"), list[RunFile], params)

    def download_file(self, run_id: int | str, source: RunFile, file: BinaryIO) -> int:
        """Write the content of one of a run's files to a file; return its size in bytes.

        Errors are as in ``download``.
        """
        params = drop_none(rank=source.rank, attempt=source.attempt)
        path = api_path("runs", run_id, "files") + quote(source.name)
        return self._http.download(path, params, file, None)

    def get_manifest(self, run_id: int | str) -> Future[Response[Manifest]]:
        """Get what a run's result depends on: code, settings, machines and versions."""
        return self._get(api_path("runs", run_id, "manifest"), Manifest)

    # --- Archives ---

    def find_run(self, name: str) -> Run | None:
        """Return the run with an id, or the newest one with a name of either kind, in this thread.

        None if no run has the name.

        Raises:
            ApiError: there is no run with the id.
        """
        if name.isascii() and name.isdecimal():
            return self.get_run(int(name)).result().value
        words = " ".join(f'"{part}"' for part in name.split('"'))
        runs = self.get_runs(query=words).result().value
        named = [run for run in runs if name in {run.name, run.resource_name, run.title}]
        return named[-1] if named else None

    def download_archive(self, run_id: int | str, file: BinaryIO) -> int:
        """Write a run's archive to a file, in this thread, and return its size in bytes."""
        return self._http.download(api_path("runs", run_id, "archive"), {}, file, None)

    def import_archive(self, file: BinaryIO) -> Response[Imported]:
        """Import the run of an archive, in this thread.

        ApiError if the file is not an archive, is damaged, or is too large.
        """
        return self._http.upload("/api/archives/", decoder(Imported), file)


def _refuse_both(**arguments: object) -> None:
    if all(value is not None for value in arguments.values()):
        raise ValueError(f"{' and '.join(arguments)} exclude each other")
