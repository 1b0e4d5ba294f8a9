"""The private network of a rank: a namespace that is connected to the switch of the local stack.

A process with threads, like the agent, cannot enter a user namespace. A helper therefore makes the
network, and passes its descriptors to the agent: ``python -m mlbench_worker.agent.rank_network``.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from io import FileIO
from ipaddress import IPv4Address
from pathlib import Path

from mlbench.contract.assignment import Attachment
from mlbench.contract.shaping import SWITCH, Shaping, ShapingError, run_tool, shape, with_tools
from mlbench.local.proc import TABLE, Traffic, parse_traffic
from mlbench_worker.agent.machine import read_shaping

INTERFACE = "eth0"
# Libraries are given the interface, because the host's name has no address in this network. NCCL
# would otherwise use direct connections between the GPUs of a machine.
NETWORK_VARIABLES = {
    **dict.fromkeys(("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME"), INTERFACE),
    **dict.fromkeys(("NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_IB_DISABLE"), "1"),
}


class NetworkError(RuntimeError):
    """The network cannot be made, for the reason in the message."""


@dataclass(frozen=True)
class RankNetwork:
    """A network namespace, which exists until it is closed and its last process has ended."""

    shaping: Shaping
    """Shaping of the traffic in the namespace."""
    sockets: tuple[socket.socket, socket.socket]
    """Two TCP sockets in the namespace."""
    _namespace: FileIO
    _users: FileIO | None
    """The user namespace of the network; None for this process's user namespace."""

    def inside(self, command: Sequence[str]) -> list[str]:
        """Return a command that runs ``command`` in the namespace, as the same user.

        It finds the namespaces through this process, so it must end before they are closed.
        """
        entering = self._entering()
        if self._users is not None:
            user, group = f"--map-user={os.geteuid()}", f"--map-group={os.getegid()}"
            entering += [_tool("unshare"), "--user", user, group]
        return [*entering, "--", *command]

    def traffic(self) -> Traffic:
        """Return the traffic of the network since it was made.

        Raises:
            OSError, SubprocessError: the namespace cannot be entered within 5 s.
        """
        command = self.inside(["cat", str(TABLE)])
        return parse_traffic(subprocess.check_output(command, text=True, timeout=5.0))

    def plug(self, *, is_in: bool) -> None:
        """Connect the network with the others, which is its initial state, or disconnect it.

        Raises:
            ShapingError: the tool fails.
        """
        state = "up" if is_in else "down"
        run_tool([*self._entering(), "--", _tool("ip"), "link", "set", INTERFACE, state])

    def _entering(self) -> list[str]:
        return [_tool("nsenter"), f"--net={_path(self._namespace)}", *_as_user(self._users)]

    def close(self) -> None:
        for resource in (*self.sockets, self._namespace, self._users):
            if resource is not None:
                resource.close()


def attach(attachment: Attachment, switch_file: Path) -> RankNetwork:
    """Make a network; ``switch_file`` contains the id of the process in the switch's namespace.

    Raises:
        NetworkError: the switch is not running, or the helper fails.
    """
    try:
        switch = str(int(switch_file.read_text()))
        users = Path("/proc", switch, "ns/user")
        is_ours = users.readlink() == Path("/proc/self/ns/user").readlink()
        belongs_to = None if is_ours else FileIO(users)
    except (OSError, ValueError) as error:
        words = "the switch of local networks is not there: see the stack's network.log"
        raise NetworkError(f"{words} ({error})") from None
    try:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            entering = [_tool("nsenter"), f"--target={switch}", "--net", *_as_user(belongs_to)]
            helper = [sys.executable, "-P", "-m", __name__, json.dumps(asdict(attachment)), switch]
            done = subprocess.run(
                [*entering, "--", _tool("unshare"), "--net", *helper, str(theirs.fileno())],
                env=with_tools(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                pass_fds=[theirs.fileno()],
                check=False,
            )
            if done.returncode:
                raise NetworkError(f"cannot create a private network: {done.stderr.strip()}")
            answer, (namespace, *sockets), _, _ = socket.recv_fds(ours, 4096, 3)
    except BaseException:
        if belongs_to is not None:
            belongs_to.close()
        raise
    first, second = (socket.socket(fileno=each) for each in sockets)
    return RankNetwork(
        Shaping(**json.loads(answer)), (first, second), FileIO(namespace), belongs_to
    )


def address_towards(host: str = "192.0.2.1", otherwise: str = "127.0.0.1") -> str:
    """Return the address of this machine's interface on the route to a host.

    The default host is an address for documentation, which is routed like any other machine.
    Without a route, the result is ``otherwise``.
    """
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, 9))  # sends nothing: it only looks up the route
            return str(probe.getsockname()[0])
    except OSError:
        return otherwise


def _tool(name: str) -> str:
    return shutil.which(name, path=with_tools()["PATH"]) or name


def _as_user(users: FileIO | None) -> list[str]:
    return [] if users is None else [f"--user={_path(users)}", "--preserve-credentials"]


def _path(file: FileIO) -> str:
    return f"/proc/{os.getpid()}/fd/{file.fileno()}"


def main() -> None:
    """Connect this process's network namespace with the switch, and pass it to the agent."""
    attachment = Attachment.from_fields(json.loads(sys.argv[1]))
    switch, channel = sys.argv[2:]
    port = f"w{int(IPv4Address(attachment.address)):08x}"
    in_switch = f"nsenter --target={switch} --net"
    try:
        for command in (
            "ip link set lo up",
            f"ip link add {INTERFACE} type veth peer name {port} netns {switch}",
            f"{in_switch} ip link set {port} master {SWITCH} addrgenmode none up",
            f"ip link set {INTERFACE} addrgenmode none up",
            f"ip address add {attachment.address}/{attachment.prefix_length} dev {INTERFACE}",
            # Repeat ARP requests, one per second, for a minute: a peer may join later.
            f"ip ntable change name arp_cache dev {INTERFACE} mcast_probes 60",
        ):
            run_tool(command.split())
        shape(attachment.shaping, INTERFACE)
    except ShapingError as error:
        sys.exit(str(error))
    answer = json.dumps(asdict(read_shaping(INTERFACE))).encode()
    namespace = os.open("/proc/self/ns/net", os.O_RDONLY)
    with (
        socket.socket(fileno=int(channel)) as agent,
        socket.socket() as first,
        socket.socket() as second,
    ):
        socket.send_fds(agent, [answer], [namespace, first.fileno(), second.fileno()])


if __name__ == "__main__":
    main()
