"""``/api/runs/{id}/events/``: what happened to a run."""

from dataclasses import asdict

from falcon import Request, Response

from master import runs
from master.events import events_of
from master.times import seconds_to_text


class EventsResource:
    """The events of a run."""

    def on_get(self, req: Request, resp: Response, run_id: int) -> None:
        """Answer with what has happened to the run by now, in order of time."""
        resp.media = [
            asdict(event) | {"time": seconds_to_text(event.time)}
            for event in events_of(runs.find(run_id))
        ]
