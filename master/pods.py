"""Which pod an agent is in: names and addresses are used again, uids are not."""


def is_same_pod(pod_uid: str | None, agent_uid: str) -> bool:
    """Return whether an agent that says this uid is in the pod that has the other one.

    Workers of one machine have none, and of older runs it is not known: it may be.
    """
    return not pod_uid or pod_uid == agent_uid
