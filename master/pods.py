"""Which pod an agent is in: names and addresses are used again, uids are not."""

from master.models import Pod
from mlbench.pod_token import PodIdentity


def is_same_pod(pod_uid: str | None, agent_uid: str) -> bool:
    """Return whether an agent that says this uid is in the pod that has the other one.

    Workers of one machine have none, and of older runs it is not known: it may be.
    """
    return not pod_uid or pod_uid == agent_uid


def is_replaced(identity: PodIdentity) -> bool:
    """Return whether the pool has seen another pod of this name."""
    pod = Pod.get_or_none(Pod.name == identity.name)
    return pod is not None and not is_same_pod(pod.uid, identity.uid)
