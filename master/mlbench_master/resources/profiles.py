"""``/api/runs/{id}/profiles``: what ranks spend their time on; and where agents bring it."""

from dataclasses import dataclass

from falcon import Request, Response

from mlbench.archive import RUN
from mlbench.contract.profiles import RankProfile
from mlbench_master.http.access import Access, own_pod
from mlbench_master.http.bodies import read_body, read_bytes
from mlbench_master.openapi.operation import operation
from mlbench_master.reading.store import ArchiveStore
from mlbench_master.runs import life, profiles


@dataclass(frozen=True)
class ProfilesResource:
    """The profiles of a run. Their files are among the run's files."""

    archives: ArchiveStore

    @operation("list_profiles", "The profiles, the oldest first.", list[RankProfile], errors=(502,))
    def on_get(self, req: Request, resp: Response, run_id: int) -> None:
        """List the last five profiles of a run's ranks, with their most expensive operators."""
        run = life.find(run_id)
        if run.origin:
            with self.archives.open(str(run.archive)) as archive:
                resp.media = profiles.listed_in(archive.document(RUN))
        else:
            resp.media = profiles.stored(run)

    @operation(
        "profile_run",
        "The profile, which is not done yet.",
        RankProfile,
        status=201,
        body=profiles.ProfileRequest,
        form=True,
        errors=(409,),
    )
    def on_post(self, req: Request, resp: Response, run_id: int) -> None:
        """Profile a rank of a run that is going on, which slows it down: the run is disturbed."""
        asked = profiles.ask(run_id, read_body(req, profiles.ProfileRequest))
        resp.media = profiles.describe(asked, life.find(run_id))


class GivenProfileResource:
    """``/api/workers/{pod}/profiles/{profile}``: what an agent brings."""

    access: Access = "agent"

    @operation("give_profile", "It is held.", status=204, body=bytes, errors=(409,))
    def on_put(self, req: Request, resp: Response, pod: str, profile_id: int) -> None:
        """Store a line of JSON that describes a profile, and its file, 32 MiB of gzip at most.

        A pod speaks for itself alone: 403.
        """
        own = own_pod(req, pod)
        profiles.answer(own, profile_id, read_bytes(req, profiles.MOST_BODY_BYTES))
