"""The assignment of a rank: what the master tells an agent to run."""

from dataclasses import dataclass
from ipaddress import IPv4Interface
from typing import Any

from mlbench.contract.shaping import Shaping

_HIGHEST_NUMBER = 2**31 - 1


@dataclass(frozen=True)
class Attachment:
    """The place of a rank in the network of local workers."""

    address: str
    prefix_length: int
    shaping: Shaping
    """How what it sends is held back."""

    @property
    def network(self) -> str:
        """The network that all of them are in, such as 198.18.0.0/15."""
        return str(IPv4Interface(f"{self.address}/{self.prefix_length}").network)

    @classmethod
    def from_fields(cls, fields: Any) -> "Attachment":
        """Return the attachment that a JSON object describes, or raise a KeyError or TypeError."""
        return cls(**{**fields, "shaping": Shaping(**fields["shaping"])})


@dataclass(frozen=True)
class Assignment:
    """One rank of one attempt. As JSON, it is part of the answer to an agent's poll."""

    run_id: int
    attempt: int
    rank: int
    world_size: int
    master_addr: str
    master_port: int
    command: tuple[str, ...]
    cpus: tuple[int, ...]
    """The cores to run on; empty where the pod itself is limited."""
    keeps_checkpoints: bool
    """Whether another attempt may follow: saving takes time from the training."""
    working_dir: str | None = None
    """The folder that the command starts in; None for the agent's own."""
    seed: int | None = None
    deadline_at: float | None = None
    """When training shall end, in Unix seconds by the master's clock."""
    attachment: Attachment | None = None
    """Where its network is one of its own; None for that of its agent."""

    @classmethod
    def from_fields(cls, fields: Any) -> "Assignment":
        """Return the assignment that a JSON object describes; ValueError if it describes none."""
        try:
            read: dict[str, Any] = {name: tuple(fields[name]) for name in ("command", "cpus")}
            if attachment := fields.get("attachment"):
                read["attachment"] = Attachment.from_fields(attachment)
            assignment = cls(**{**fields, **read})
        except (KeyError, TypeError) as error:
            raise ValueError(f"not an assignment: {error}") from error
        # The agent makes paths of these.
        for number in (assignment.run_id, assignment.attempt, assignment.rank):
            if type(number) is not int or not 0 <= number <= _HIGHEST_NUMBER:
                raise ValueError(f"not an assignment: {number!r:.20} is not a run, attempt or rank")
        return assignment
