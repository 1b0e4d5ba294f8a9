"""``/api/runs/{id}/archive/``: download and verify archives."""

from dataclasses import dataclass

import falcon
from falcon import Request, Response

from mlbench.contract.records import Verification
from mlbench_master.archives.verifying import verify
from mlbench_master.http.bodies import offer_file
from mlbench_master.openapi.operation import operation
from mlbench_master.reading.store import ArchiveStore
from mlbench_master.runs import lifecycle

_ZIP = "application/zip"


@dataclass(frozen=True)
class ArchivesResource:
    """Download and verification of a run's archive."""

    archives: ArchiveStore

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
        resp.stream, resp.content_length = self.archives.read(run.archive)
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
        resp.media = verify(self.archives, lifecycle.find(run_id))
