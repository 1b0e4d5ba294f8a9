"""``/api/runs/{id}/manifest/``: what a run's result depends on."""

from falcon import Request, Response

from master import manifest, runs


class ManifestResource:
    """The manifest of one run."""

    def on_get(self, req: Request, resp: Response, run_id: int) -> None:
        """Answer with what the run's result depends on: order, settings, data, machines."""
        resp.media = manifest.build(runs.find(run_id))
