"""Shape what a worker sends: its bandwidth, latency and loss, by queueing disciplines of Linux.

``python3 -m mlbench.contract.shaping`` shapes what the pod that it runs in sends, as variables
say. It needs the capability NET_ADMIN, so an init container does it, before the worker starts.
"""

import fcntl
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlbench.contract.errors import MLBenchError
from mlbench.contract.runspec import Network

# What Kubernetes shows of a container that failed; elsewhere there is no such file.
_REASON = Path("/dev/termination-log")
_MODULES = {"netem": "sch_netem", "tbf": "sch_tbf", "veth": "veth", "bridge": "bridge"}
_UNKNOWN = ("nknown", "not found", "No such file")

PACKAGES = {"ip": "iproute2", "tc": "iproute2", "nsenter": "util-linux", "unshare": "util-linux"}
"""The tools that it takes, and the packages that have them."""

BURST_PACKETS = 2
"""So many packets pass at once after a pause: 3 kB with the usual packets of 1,500 bytes."""

_GET_MTU = 0x8921  # SIOCGIFMTU
_ETHERNET_BYTES = 14

SWITCH = "mlbench"
"""The name of the bridge that local workers' networks are plugged into."""


class ShapingError(MLBenchError):
    """What is sent cannot be shaped."""


@dataclass(frozen=True)
class Shaping(Network):
    """How what a worker sends is held back, and how an init container is told."""

    def __bool__(self) -> bool:
        """Tell whether anything is held back."""
        return any(vars(self).values())

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> "Shaping":
        """Read it from the variables of ``variables``; ShapingError if one is no number."""
        limits = {}
        for field, name in _VARIABLES.items():
            text = environ.get(name) or "0"
            try:
                limits[field] = float(text) or None
            except ValueError:
                raise ShapingError(f"${name} must be a number (not {text!r})") from None
        return cls(**limits)

    @property
    def variables(self) -> dict[str, str]:
        """The variables that tell an init container."""
        given = {name: getattr(self, field) for field, name in _VARIABLES.items()}
        return {name: f"{value:.15g}" for name, value in given.items() if value}


_VARIABLES = {
    "max_bandwidth": "MLBENCH_BANDWIDTH_MBIT",
    "latency_ms": "MLBENCH_LATENCY_MS",
    "loss_percent": "MLBENCH_LOSS_PERCENT",
}


def commands(shaping: Shaping, interface: str, packet_bytes: int = 1514) -> list[list[str]]:
    """Return the commands that bring a shaping into force on an interface.

    What is sent is late or lost first, and then waits for a token bucket, whose queue is therefore
    as short as without latency. ``packet_bytes`` is the largest packet of the interface.
    """
    of_device, root = ["dev", interface], ["root", "handle", "1:"]
    tc_commands = []
    if shaping.latency_ms or shaping.loss_percent:
        # As many packets as no network has on its way: none is lost but by order.
        delayed = ["netem", "limit", "100000"]
        if shaping.latency_ms:
            delayed += ["delay", f"{shaping.latency_ms:.15g}ms"]
        if shaping.loss_percent:
            delayed += ["loss", f"{shaping.loss_percent:.15g}%"]
            # Packets as a wire has them: otherwise up to 64 KiB would be lost at once.
            tc_commands.append(["ip", "link", "set", *of_device, "gso_max_segs", "1"])
        tc_commands.append(["tc", "qdisc", "replace", *of_device, "root", "handle", "2:", *delayed])
        root = ["parent", "2:1", "handle", "3:"]
    if rate := shaping.max_bandwidth:
        # What is in the bucket passes at once after a pause, so that short messages are sent faster
        # than the rate. With one packet in it, long ones would be sent more slowly, as timers are
        # late.
        burst = str(BURST_PACKETS * packet_bytes)
        bucket = ["tbf", "rate", f"{rate:.15g}mbit", "burst", burst, "latency", "50ms"]
        tc_commands.append(["tc", "qdisc", "replace", *of_device, *root, *bucket])
    return tc_commands


def shape(shaping: Shaping, interface: str) -> None:
    """Bring a shaping into force on an interface; a ShapingError says what is missing for it."""
    for command in commands(shaping, interface, _largest_packet(interface)):
        run_tool(command)


def _largest_packet(interface: str) -> int:
    """Return the bytes of the largest packet that an interface sends, with its Ethernet header."""
    request = struct.pack("16si", interface.encode(), 0)
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            answer = fcntl.ioctl(asking, _GET_MTU, request)
    except OSError as error:
        raise ShapingError(f"{interface}: {error.strerror}") from None
    return int(struct.unpack("16si", answer)[1]) + _ETHERNET_BYTES


def run_tool(command: Sequence[str]) -> None:
    """Run a command of iproute2 or util-linux; ShapingError if it fails, or is not installed."""
    env = with_tools()
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise ShapingError(f"there is no {command[0]}: install {PACKAGES[command[0]]}") from None
    if done.returncode:
        raise ShapingError(explain(command, done.stderr))


def with_tools(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return an environment in which the tools are found, which not every user's path leads to."""
    path = environ.get("PATH") or os.defpath
    return {**environ, "PATH": f"{path}:/usr/sbin:/sbin", "LC_ALL": "C"}


def explain(command: Sequence[str], said: str) -> str:
    """Return in words why a command failed that said this."""
    said = " ".join(said.split())
    if "not permitted" in said:
        return f"the capability NET_ADMIN is missing ({said})"
    module = next((_MODULES[word] for word in command if word in _MODULES), None)
    if module and any(word in said for word in _UNKNOWN):
        return f"the kernel lacks the module {module}: modprobe {module} ({said})"
    return f"{' '.join(command)}: {said}"


def default_interface(root: Path = Path("/")) -> str | None:
    """Return the interface of the default route: that of IPv4, or else of IPv6."""
    for line in _lines(root / "proc/net/route"):
        interface, destination, *_ = line.split()
        if destination == "00000000":
            return interface
    for line in _lines(root / "proc/net/ipv6_route"):
        destination, prefix_length, *_, interface = line.split()
        if (destination, prefix_length) == ("0" * 32, "00") and interface != "lo":
            return interface
    return None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def main() -> None:
    """Shape what this pod sends, or say why not, and fail."""
    try:
        shaping = Shaping.from_environ(os.environ)
        interface = default_interface()
        if interface is None:
            raise ShapingError("this pod has no default route, so its interface is not known")
        shape(shaping, interface)
    except ShapingError as error:
        if os.access(_REASON, os.W_OK):
            _REASON.write_text(str(error))
        sys.exit(f"cannot shape what is sent: {error}")
    print(f"{interface}: {shaping}")


if __name__ == "__main__":
    main()
