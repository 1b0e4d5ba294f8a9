"""Assignment of a rank: the work that the master gives an agent."""

from dataclasses import dataclass
from ipaddress import IPv4Interface
from typing import Any

from mlbench.contract.shaping import Shaping


@dataclass(frozen=True)
class Attachment:
    """The attachment of a rank to the network of local workers."""

    address: str
    prefix_length: int
    shaping: Shaping
    """Bandwidth, latency and packet loss of the outgoing traffic."""

    @property
    def network(self) -> str:
        """Network of the local workers, such as 198.18.0.0/15."""
        return str(IPv4Interface(f"{self.address}/{self.prefix_length}").network)

    @classmethod
    def from_fields(cls, fields: Any) -> "Attachment":
        """Return the attachment in a JSON object, or raise a KeyError or TypeError."""
        return cls(**{**fields, "shaping": Shaping(**fields["shaping"])})


@dataclass(frozen=True)
class Assignment:
    """A rank of an attempt. As JSON, it is part of the response to an agent's poll.

    The sidecar of an external rank makes the assignment itself, from the launcher's variables.
    """

    run_id: int
    """Id of the run; 0 for an external rank until it has joined its run."""
    attempt: int
    rank: int
    world_size: int
    command: tuple[str, ...]
    master_addr: str = ""
    """Address of rank 0; empty if the launcher of an external rank knows it."""
    master_port: int = 0
    cpus: tuple[int, ...] = ()
    """Numbers of the cores to run on; empty if the pod itself is limited."""
    keeps_checkpoints: bool = False
    """Whether to save checkpoints. Without restarts, they would only cost training time."""
    working_dir: str | None = None
    """Folder that the command starts in; None for the agent's folder."""
    seed: int | None = None
    """Random seed; None without one."""
    deadline_at: float | None = None
    """End of the training, in Unix seconds by the master's clock; None without a deadline."""
    attachment: Attachment | None = None
    """Network of the rank; None if the rank uses its agent's network."""

    @classmethod
    def from_fields(cls, fields: Any) -> "Assignment":
        """Return the assignment in a JSON object. Raises ValueError if it is not valid."""
        try:
            parsed: dict[str, Any] = {name: tuple(fields[name]) for name in ("command", "cpus")}
            if attachment := fields.get("attachment"):
                parsed["attachment"] = Attachment.from_fields(attachment)
            assignment = cls(**{**fields, **parsed})
        except (KeyError, TypeError) as error:
            raise ValueError(f"not an assignment: {error}") from error
        # The agent builds paths from these numbers.
        for number in (assignment.run_id, assignment.attempt, assignment.rank):
            if type(number) is not int or not 0 <= number < 2**31:
                raise ValueError(f"not an assignment: {number!r:.20} is not a run, attempt or rank")
        return assignment
