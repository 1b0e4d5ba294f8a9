"""``/api/runs/{id}/diagnosis``: diagnosis of hung runs, and where agents send the evidence."""

from dataclasses import dataclass, replace
from typing import Annotated

from falcon import Request, Response

from mlbench.contract.diagnosis import Diagnosis, Evidence
from mlbench.contract.fields import Field
from mlbench.contract.limits import MAX_EVIDENCE_BYTES
from mlbench_master.errors import NotFoundError
from mlbench_master.http.access import Access, own_pod
from mlbench_master.http.bodies import read_json
from mlbench_master.openapi.operation import operation
from mlbench_master.openapi.parameters import Whole
from mlbench_master.runs import diagnoses, lifecycle


@dataclass(frozen=True)
class DiagnosisQuery:
    """The parameters of ``GET /api/runs/{run_id}/diagnosis/``."""

    evidence: bool = True
    """Include the evidence of each rank."""


@dataclass(frozen=True)
class NewDiagnosisQuery:
    """The parameters of ``POST /api/runs/{run_id}/diagnosis/``."""

    native: Annotated[Whole | None, Field(example=1)] = None
    """Rank whose C frames are included. Reading them pauses the rank for 2 s."""


class DiagnosisResource:
    """The latest diagnosis of a run."""

    @operation("get_diagnosis", "The diagnosis: verdict, merged stacks and evidence.", Diagnosis)
    def on_get(self, req: Request, resp: Response, query: DiagnosisQuery, run_id: int) -> None:
        """Return the latest diagnosis of why the run makes no progress."""
        requested = diagnoses.asked_of(lifecycle.find(run_id).id)
        if not requested:
            raise NotFoundError(f"run_id: run {run_id} has no diagnosis. Request one with POST.")
        diagnosis = diagnoses.describe(requested[-1])
        resp.media = diagnosis if query.evidence else replace(diagnosis, evidence=())

    @operation(
        "ask_run",
        "The new diagnosis, or one that is still running. A diagnosis takes at most 20 s.",
        Diagnosis,
        errors=(409,),
    )
    def on_post(self, req: Request, resp: Response, query: NewDiagnosisQuery, run_id: int) -> None:
        """Diagnose why a running run makes no progress. Its ranks are not affected."""
        resp.media = diagnoses.describe(diagnoses.ask(run_id, "asked", query.native))


class EvidenceResource:
    """``/api/workers/{pod}/diagnoses/{diagnosis}``: the evidence of a rank."""

    access: Access = "agent"

    @operation("give_evidence", "The evidence is stored.", status=204, body=Evidence, errors=(409,))
    def on_put(self, req: Request, resp: Response, pod: str, diagnosis_id: int) -> None:
        """Store the evidence of the pod's rank, at most 256 KiB; only the first one counts.

        403: the token belongs to another pod.
        """
        diagnoses.answer(own_pod(req, pod), diagnosis_id, read_json(req, MAX_EVIDENCE_BYTES))
