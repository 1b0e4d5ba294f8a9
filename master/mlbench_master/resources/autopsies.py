"""``/api/runs/{id}/autopsy``: why a run does not go on; and where agents bring their evidence."""

from dataclasses import replace

from falcon import Request, Response

from mlbench.contract.autopsy import Autopsy, Evidence
from mlbench_master.errors import NotFoundError
from mlbench_master.http.access import Access, own_pod
from mlbench_master.http.bodies import read_json
from mlbench_master.openapi.operation import flag, operation, whole
from mlbench_master.runs import autopsies, life

_MOST_BYTES = 256 << 10
_EVIDENCE = flag("evidence", "Whether to answer with the evidence of each rank.", default=True)
_NATIVE = whole("native", "The rank whose frames of C are wanted too; it stands still for 2 s.", 1)


class AutopsyResource:
    """The latest autopsy of a run."""

    @operation(
        "get_autopsy",
        "The verdict, the merged stacks, and the evidence.",
        Autopsy,
        parameters=(_EVIDENCE,),
    )
    def on_get(self, req: Request, resp: Response, run_id: int) -> None:
        """Answer with what was found when the run was last asked why it does not go on."""
        asked = autopsies.asked_of(life.find(run_id).id)
        if not asked:
            raise NotFoundError(f"run_id: run {run_id} has no autopsy. Request one with POST.")
        found = autopsies.describe(asked[-1])
        resp.media = found if _EVIDENCE.read(req) else replace(found, evidence=())

    @operation(
        "ask_run",
        "The autopsy that has begun, or that was going on: it is done within 20 s.",
        Autopsy,
        parameters=(_NATIVE,),
        errors=(409,),
    )
    def on_post(self, req: Request, resp: Response, run_id: int) -> None:
        """Ask the ranks of a run that is going on what they are doing. Asking changes nothing."""
        resp.media = autopsies.describe(autopsies.ask(run_id, "asked", _NATIVE.read(req)))


class EvidenceResource:
    """``/api/workers/{pod}/autopsies/{autopsy}``: what a rank answers."""

    access: Access = "agent"

    @operation("give_evidence", "It is held.", status=204, body=Evidence, errors=(409,))
    def on_put(self, req: Request, resp: Response, pod: str, autopsy_id: int) -> None:
        """Store what was gathered of the pod's rank, at most 256 KiB; the first that comes counts.

        A pod speaks for itself alone: 403.
        """
        autopsies.answer(own_pod(req, pod), autopsy_id, read_json(req, _MOST_BYTES))
