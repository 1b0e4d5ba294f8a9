"""``/api/runs/{id}/diagnosis``: diagnosis of hung runs, and where agents send the evidence."""

from dataclasses import replace

from falcon import Request, Response

from mlbench.contract.diagnosis import Diagnosis, Evidence
from mlbench.contract.limits import MAX_EVIDENCE_BYTES
from mlbench_master.errors import NotFoundError
from mlbench_master.http.access import Access, own_pod
from mlbench_master.http.bodies import read_json
from mlbench_master.openapi.operation import flag, operation, whole
from mlbench_master.runs import diagnoses, lifecycle

_EVIDENCE = flag("evidence", "Include the evidence of each rank.", default=True)
_NATIVE = whole(
    "native", "Rank whose C frames are included. Reading them pauses the rank for 2 s.", 1
)


class DiagnosisResource:
    """The latest diagnosis of a run."""

    @operation(
        "get_diagnosis",
        "The diagnosis: verdict, merged stacks and evidence.",
        Diagnosis,
        parameters=(_EVIDENCE,),
    )
    def on_get(self, req: Request, resp: Response, run_id: int) -> None:
        """Return the latest diagnosis of why the run makes no progress."""
        requested = diagnoses.asked_of(lifecycle.find(run_id).id)
        if not requested:
            raise NotFoundError(f"run_id: run {run_id} has no diagnosis. Request one with POST.")
        diagnosis = diagnoses.describe(requested[-1])
        resp.media = diagnosis if _EVIDENCE.read(req) else replace(diagnosis, evidence=())

    @operation(
        "ask_run",
        "The new diagnosis, or one that is still running. A diagnosis takes at most 20 s.",
        Diagnosis,
        parameters=(_NATIVE,),
        errors=(409,),
    )
    def on_post(self, req: Request, resp: Response, run_id: int) -> None:
        """Diagnose why a running run makes no progress. Its ranks are not affected."""
        resp.media = diagnoses.describe(diagnoses.ask(run_id, "asked", _NATIVE.read(req)))


class EvidenceResource:
    """``/api/workers/{pod}/diagnoses/{diagnosis}``: the evidence of a rank."""

    access: Access = "agent"

    @operation("give_evidence", "The evidence is stored.", status=204, body=Evidence, errors=(409,))
    def on_put(self, req: Request, resp: Response, pod: str, diagnosis_id: int) -> None:
        """Store the evidence of the pod's rank, at most 256 KiB; only the first one counts.

        403: the token belongs to another pod.
        """
        diagnoses.answer(own_pod(req, pod), diagnosis_id, read_json(req, MAX_EVIDENCE_BYTES))
