"""``/api/runs/{id}/profiles``: profiles of ranks, and where agents send them."""

from dataclasses import dataclass

from falcon import Request, Response

from mlbench.archive import RUN
from mlbench.contract.profiles import RankProfile
from mlbench_master.http.access import Access, own_pod
from mlbench_master.http.bodies import read_body, read_bytes
from mlbench_master.openapi.operation import operation
from mlbench_master.reading.store import ArchiveStore
from mlbench_master.runs import lifecycle, run_profiles


@dataclass(frozen=True)
class ProfilesResource:
    """The profiles of a run, whose files are among the files of the run."""

    archives: ArchiveStore

    @operation("list_profiles", "The profiles, the oldest first.", list[RankProfile], errors=(502,))
    def on_get(self, req: Request, resp: Response, run_id: int) -> None:
        """List the last five profiles of the run's ranks, with the most expensive operators."""
        run = lifecycle.find(run_id)
        if run.origin:
            with self.archives.open(str(run.archive)) as archive:
                resp.media = run_profiles.listed_in(archive.document(RUN))
        else:
            resp.media = run_profiles.stored(run)

    @operation(
        "profile_run",
        "The requested profile, not done yet.",
        RankProfile,
        status=201,
        body=run_profiles.ProfileRequest,
        form=True,
        errors=(409,),
    )
    def on_post(self, req: Request, resp: Response, run_id: int) -> None:
        """Profile a rank of an active run. The run is slowed down and marked as disturbed."""
        profile = run_profiles.ask(run_id, read_body(req, run_profiles.ProfileRequest))
        resp.media = run_profiles.describe(profile, lifecycle.find(run_id))


class GivenProfileResource:
    """``/api/workers/{pod}/profiles/{profile}``: a profile that an agent sends."""

    access: Access = "agent"

    @operation("give_profile", "The profile is stored.", status=204, body=bytes, errors=(409,))
    def on_put(self, req: Request, resp: Response, pod: str, profile_id: int) -> None:
        """Store a profile: a line of JSON that describes the profile, then its gzip file.

        The file has at most 32 MiB. 403: the token belongs to another pod.
        """
        identity = own_pod(req, pod)
        run_profiles.answer(identity, profile_id, read_bytes(req, run_profiles.MAX_BODY_BYTES))
