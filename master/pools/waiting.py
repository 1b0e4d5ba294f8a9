"""Why worker pods are not there, in words that a user understands."""

from collections.abc import Sequence

from master.pools.api import ApiError
from master.pools.base import TERMINATING
from master.pools.plan import Wanted, fits
from master.pools.seen import SeenPod

_FORBIDDEN = 403
_INVALID = (400, 422)


def explain_pods(pods: Sequence[SeenPod], wanted: Wanted, ask: str) -> str:
    """Return why not all pods run; empty if they do.

    Args:
        pods: the worker pods that there are.
        wanted: what there should be.
        ask: the command that tells why pods are not even made.
    """
    workers = wanted.workers
    made = [pod for pod in pods if fits(pod, wanted) and pod.phase != TERMINATING]
    for pod in made:
        if pod.trouble and not pod.running:
            return f"{pod.trouble} ({pod.name})"
    for pod in made:
        if pod.unschedulable:
            room = sum(one.scheduled for one in made)
            return f"the cluster has room for {room} of {workers} workers: {pod.unschedulable}"
    there = f"{len(made)} of {workers} worker pods are made"
    if ending := len(pods) - len(made):
        return f"{there}; the former ones ({ending}) end first"
    if len(made) < workers:
        return f"{there}; if it stays so, {ask} tells why"
    if pending := sum(not pod.running for pod in made):
        started = f"{workers - pending} of {workers} worker pods have started"
        return f"{started}; the others pull their image, or are being set up"
    return ""


def explain_refusal(error: ApiError) -> str:
    """Return what it means that the cluster does not make worker pods."""
    if error.status == 0:
        return f"the cluster's API does not answer: {error}"
    if error.status == _FORBIDDEN:
        return f"the cluster refuses to make worker pods (403 Forbidden): {error}"
    if error.status in _INVALID:
        return f"the cluster finds the worker pods invalid ({error.status}): {error}"
    return f"the cluster cannot make worker pods ({error.status}): {error}"
