"""``/api/runs/{id}/verification/``: whether a run's archive, and Prometheus, have all of it."""

from dataclasses import dataclass

from falcon import Request, Response

from mlbench.records import Verification
from mlbench_master.archives.verifying import Verifier
from mlbench_master.http import choice
from mlbench_master.openapi.operation import Parameter, operation
from mlbench_master.runs import life

_RESTORE = Parameter(
    "restore",
    {"type": "string", "enum": ["true", "false"], "default": "false"},
    "`true` writes what Prometheus lacks, as far as it is not older than 23 hours. An archive that "
    "is damaged is sealed again from what Prometheus has.",
    example="true",
)


@dataclass(frozen=True)
class VerificationResource:
    """What is found when a run is verified."""

    verifier: Verifier

    @operation(
        "verify_run",
        "What is damaged or missing, if anything is.",
        Verification,
        parameters=(_RESTORE,),
        errors=(404, 502, 503),
    )
    def on_post(self, req: Request, resp: Response, run_id: int) -> None:
        """Verify the run's archive: by itself, and against what Prometheus has."""
        restore = choice(req, "restore", ("true", "false"), default="false") == "true"
        resp.media = self.verifier.verify(life.find(run_id), restore=restore)
