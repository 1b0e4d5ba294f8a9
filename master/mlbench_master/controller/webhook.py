"""Messages to a webhook: a run ended, or hangs. Slack's incoming webhooks accept them.

The transaction that ends a run stores the event too. A thread sends its message, and marks the
event once the receiver has accepted the message. A controller that is killed between these two
steps sends the message again when it starts.
"""

import html
import logging
import time
from dataclasses import dataclass, field

import httpx

from mlbench.contract import figures
from mlbench.contract.login import origin_of
from mlbench.local.backoff import Backoff
from mlbench_master.database.connection import store
from mlbench_master.database.models import Notification, Run
from mlbench_master.notify import Waiter
from mlbench_master.runs import diagnoses
from mlbench_master.runs.presenters import target_of

log = logging.getLogger(__name__)

_LOOK_SECONDS = 5.0
_STATES = {"FINISHED": "finished", "FAILED": "failed", "STOPPED": "was stopped"}


@dataclass(frozen=True)
class Webhook:
    """Sends the messages that are due."""

    url: str = field(repr=False)
    """Address of the receiver, which may contain a token; empty without one."""
    master_url: str
    """Address of the master for browsers, for links."""

    def run(self, waiter: Waiter, stop: Waiter) -> None:
        """Send messages until stopped. After a failure, new events do not end the pause."""
        wait, pause, backoff = waiter.wait, _LOOK_SECONDS, Backoff(1.0, 60.0)
        while self.url and not wait(pause):
            try:
                problem = self.send_due(time.time())
            except Exception:
                problem = "an error"
                log.exception("sending messages failed")
            if problem:
                log.warning("webhook %s: %s, trying again", origin_of(self.url), problem)
                wait, pause = stop.wait, backoff.seconds()
            else:
                wait, pause = waiter.wait, _LOOK_SECONDS
                backoff.reset()

    def send_due(self, now: float) -> str:
        """Send due messages, oldest first, and return why some were not accepted, or nothing."""
        problems: dict[str, None] = {}
        for event in Notification.rows("sent_at IS NULL ORDER BY id"):
            run = Run.get_or_none(Run.id == event.run_id)
            if run is None:  # deleted in the meantime, with its events
                continue
            # A receiver that comes back after a day gets only newer messages.
            if event.at < now - 86_400.0:
                log.warning("webhook: no message that run %d %s, after a day", run.id, event.event)
                event.delete_instance()
            elif text := message_of(event, run, now):
                link = f"{self.master_url}/runs/{run.id}"
                try:
                    # An exception of httpx may contain the URL, but not that of its transport.
                    # Without reading the body, an endless one does not matter.
                    content = {"text": f"{html.escape(text, quote=False)}\n{link}"}
                    with httpx.stream("POST", self.url, json=content, timeout=10.0) as response:
                        status = response.status_code
                except httpx.TransportError as error:
                    problems[str(error) or type(error).__name__] = None
                    break
                # The next message may be one that the receiver accepts.
                if httpx.codes.is_success(status):
                    store(event, sent_at=now)
                else:
                    problems[f"it answered {status}"] = None
        return ", ".join(problems)


def message_of(event: Notification, run: Run, now: float) -> str:
    """Return the text of a message; empty while the result or the diagnosis is being computed."""
    subject = f"Run {run.id} ({run.title or run.own_name})"
    if run.user:
        subject += f" of {run.user}"
    begun = run.started_at or event.at
    if event.event == "hung":
        asked = [one for one in diagnoses.asked_of(run.id) if one.attempt == event.attempt]
        if asked and not diagnoses.is_done(asked[-1]):
            return ""
        verdict = diagnoses.sentence_of(asked[-1]) if asked else "a rank makes no progress"
        return f"{subject} hung after {figures.seconds(event.at - begun)}: {verdict}"
    # If a result cannot be computed, the message is sent without it after a minute.
    if run.figures is None and now < event.at + 60.0:
        return ""
    text = f"{subject} {_STATES[run.state]}"
    if run.state == "STOPPED" and run.stopped_by:
        text += f" by {run.stopped_by}"
    ended = run.finished_at or event.at
    text += f" after {figures.seconds(ended - begun)}" if run.started_at else " before it started"
    summary = run.figures or {}
    outcome = summary.get("outcome") or {"kind": "", "text": run.reason.partition("\n")[0]}
    results = [] if outcome["kind"] in ("completed", "stopped") else [outcome["text"]]
    if (target := target_of(run)) is not None and summary.get("best_value") is not None:
        results.append(f"{figures.target(target)}, best {figures.number(summary['best_value'])}")
    return ": ".join(filter(None, [text, "; ".join(filter(None, results))]))
