"""``/api/archives/`` and ``/api/runs/{id}/archive/``: import, download and verify archives."""

from dataclasses import dataclass
from tempfile import TemporaryFile

import falcon
from falcon import Request, Response

from mlbench.contract.records import Imported, Verification
from mlbench_master.archives import importing
from mlbench_master.archives.verifying import Verifier
from mlbench_master.http.bodies import offer_file, read_to_file
from mlbench_master.openapi.operation import operation
from mlbench_master.reading.series import SeriesReader
from mlbench_master.runs import lifecycle, presenters
from mlbench_master.serving.connection import is_gone

_ZIP = "application/zip"
# At most four imports run at once, and the /tmp of the chart has 1 GiB.
_MAX_BYTES = 200 << 20


@dataclass(frozen=True)
class ArchivesResource:
    """Imports of archives, and download and verification of a run's archive."""

    reader: SeriesReader
    verifier: Verifier

    @operation(
        "import_archive",
        "The imported run, and whether the import added it.",
        Imported,
        body=bytes,
        errors=(502, 503),
    )
    def on_post(self, req: Request, resp: Response) -> None:
        """Import a run from its archive, the body of the request.

        The imported run is read-only. Its `origin` is set; otherwise, lists and comparisons treat
        imported runs like all others. Importing the same archive again, or the archive of a run of
        this installation, adds nothing.
        """
        with TemporaryFile() as file:
            read_to_file(req, file, _MAX_BYTES)
            run, added = importing.import_archive(self.reader, file, lambda: is_gone(req.env))
        resp.media = Imported(presenters.describe(lifecycle.find(run.id)), added)

    @operation(
        "get_archive",
        "The archive, a zip file.",
        files={_ZIP: {"type": "string", "contentMediaType": _ZIP}},
        errors=(409, 502),
    )
    def on_get_run(self, req: Request, resp: Response, run_id: int) -> None:
        """Download the archive of a run."""
        run = lifecycle.find(run_id)
        if run.archive is None:
            why = run.archive_problem or "archives are sealed soon after the end of a run"
            raise falcon.HTTPConflict(description=f"run {run_id} has no archive: {why}")
        resp.stream, resp.content_length = self.reader.archives.read(run.archive)
        resp.content_type = _ZIP
        offer_file(resp, run.archive)

    @operation(
        "verify_run",
        "The damaged and missing parts of the archive, if any.",
        Verification,
        errors=(502, 503),
    )
    def on_post_verification(self, req: Request, resp: Response, run_id: int) -> None:
        """Verify the archive of a run: its digests, its result, and its samples."""
        resp.media = self.verifier.verify(lifecycle.find(run_id))
