"""Which pod an agent is in: names are used again, addresses tell one pod from the next."""

from master.settings import LOOPBACK_HOSTS


def is_same_pod(pod_ip: str | None, agent_ip: str) -> bool:
    """Return whether an agent that says this address is in the pod that has the other one.

    On one machine all workers have the same, and one of older runs is not known: it may be.
    """
    return pod_ip is None or pod_ip == agent_ip or bool({pod_ip, agent_ip} & LOOPBACK_HOSTS)
