"""``/api/archives/`` and ``/api/runs/{id}/archive/``: runs as files, and whether they have all."""

from dataclasses import dataclass
from tempfile import TemporaryFile

import falcon
from falcon import Request, Response

from mlbench.contract.records import Imported, Verification
from mlbench_master.archives import importing
from mlbench_master.archives.verifying import Verifier
from mlbench_master.http.bodies import offer_file, read_to_file
from mlbench_master.openapi.operation import flag, operation
from mlbench_master.reading.series import SeriesReader
from mlbench_master.runs import describing, life
from mlbench_master.serving.buffered import BufferedSocket

_FILE = "application/zip"
# The four requests that may have such bodies at once share the 1 GiB of the chart's /tmp.
_MOST_BYTES = 200 << 20
_RESTORE = flag(
    "restore",
    "`true` writes what Prometheus lacks, as far as it is not older than 23 hours. An archive that "
    "is damaged is sealed again from what Prometheus has.",
    default=False,
)


@dataclass(frozen=True)
class ArchivesResource:
    """Where archives are imported; and the archive of one run, to get it and to verify it."""

    reader: SeriesReader
    verifier: Verifier

    @operation(
        "import_archive",
        "The run that the archive is of, and whether it is new here.",
        Imported,
        body=bytes,
        errors=(502, 503),
    )
    def on_post(self, req: Request, resp: Response) -> None:
        """Import the run of an archive, which is the body.

        It is listed and compared as all others are, with its `origin`, and is read only. The same
        archive once more adds nothing, and neither does that of a run of this installation.
        """
        with TemporaryFile() as file:
            read_to_file(req, file, _MOST_BYTES)
            buffered = req.env.get("gunicorn.socket")
            is_gone = isinstance(buffered, BufferedSocket) and (lambda: buffered.is_gone)
            run, added = importing.import_archive(self.reader, file, is_gone or (lambda: False))
        resp.media = Imported(describing.describe(life.find(run.id)), added)

    @operation(
        "get_archive",
        "The archive, a zip file.",
        files={_FILE: {"type": "string", "contentMediaType": _FILE}},
        errors=(409, 502),
    )
    def on_get_run(self, req: Request, resp: Response, run_id: int) -> None:
        """Answer with the archive of the run."""
        run = life.find(run_id)
        if run.archive is None:
            why = run.archive_problem or "archives are sealed soon after the end of a run"
            raise falcon.HTTPConflict(description=f"run {run_id} has no archive: {why}")
        resp.stream, resp.content_length = self.reader.archives.read(run.archive)
        resp.content_type = _FILE
        offer_file(resp, run.archive)

    @operation(
        "verify_run",
        "What is damaged or missing, if anything is.",
        Verification,
        parameters=(_RESTORE,),
        errors=(502, 503),
    )
    def on_post_verification(self, req: Request, resp: Response, run_id: int) -> None:
        """Verify the run's archive: by itself, and against what Prometheus has."""
        resp.media = self.verifier.verify(life.find(run_id), restore=_RESTORE.read(req))
