"""Shaping of a worker's outgoing traffic: bandwidth, latency and loss, with Linux's ``tc``.

``python3 -m mlbench.contract.shaping`` shapes the traffic of the pod that it runs in, according to
environment variables. It needs the capability NET_ADMIN, so an init container runs it before the
worker starts.
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
from mlbench.contract.runspec import NetworkOptions

# Kubernetes shows the text of this file for a container that failed. It exists only there.
_REASON = Path("/dev/termination-log")
_MODULES = {"netem": "sch_netem", "tbf": "sch_tbf", "veth": "veth", "bridge": "bridge"}


PACKAGES = {"ip": "iproute2", "tc": "iproute2", "nsenter": "util-linux", "unshare": "util-linux"}
"""Required tools, and the packages that contain them."""

BURST_PACKETS = 2
"""Number of packets that pass at once after a pause: 3 kB with the usual 1,500 bytes each."""

SWITCH = "mlbench"
"""Name of the bridge that connects the networks of local workers."""


class ShapingError(MLBenchError):
    """The outgoing traffic cannot be shaped."""


@dataclass(frozen=True)
class Shaping(NetworkOptions):
    """The limits on a worker's outgoing traffic, with their environment variables."""

    def __bool__(self) -> bool:
        return any(vars(self).values())

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> "Shaping":
        """Read the limits from environment variables. Raises ShapingError for a bad number."""
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
        """Environment variables of the init container."""
        limits = {name: getattr(self, field) for field, name in _VARIABLES.items()}
        return {name: f"{limit:.15g}" for name, limit in limits.items() if limit}


_VARIABLES = {
    "max_bandwidth": "MLBENCH_BANDWIDTH_MBIT",
    "latency_ms": "MLBENCH_LATENCY_MS",
    "loss_percent": "MLBENCH_LOSS_PERCENT",
}


def commands(shaping: Shaping, interface: str, packet_bytes: int = 1514) -> list[list[str]]:
    """Return the commands that apply a shaping to an interface.

    Latency and loss come before the token bucket, so the queue of the bucket is as short as without
    latency. ``packet_bytes`` is the size of the interface's largest packet.
    """
    of_device, root = ["dev", interface], ["root", "handle", "1:"]
    tc_commands = []
    if shaping.latency_ms or shaping.loss_percent:
        # The queue is longer than any network's, so that it never drops a packet itself.
        netem = ["netem", "limit", "100000"]
        if shaping.latency_ms:
            netem += ["delay", f"{shaping.latency_ms:.15g}ms"]
        if shaping.loss_percent:
            netem += ["loss", f"{shaping.loss_percent:.15g}%"]
            # Segmentation offload would combine packets, and drop up to 64 KiB at once.
            tc_commands.append(["ip", "link", "set", *of_device, "gso_max_segs", "1"])
        tc_commands.append(["tc", "qdisc", "replace", *of_device, "root", "handle", "2:", *netem])
        root = ["parent", "2:1", "handle", "3:"]
    if rate := shaping.max_bandwidth:
        # After a pause, the content of the bucket passes at once, so short messages are faster than
        # the rate. With a single packet in the bucket, long messages would be slower than the rate,
        # because timers fire late.
        burst = str(BURST_PACKETS * packet_bytes)
        bucket = ["tbf", "rate", f"{rate:.15g}mbit", "burst", burst, "latency", "50ms"]
        tc_commands.append(["tc", "qdisc", "replace", *of_device, *root, *bucket])
    return tc_commands


def shape(shaping: Shaping, interface: str) -> None:
    """Apply a shaping to an interface. Raises ShapingError with the missing prerequisite."""
    request = struct.pack("16si", interface.encode(), 0)
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            response = fcntl.ioctl(sock, 0x8921, request)  # SIOCGIFMTU
    except OSError as error:
        raise ShapingError(f"{interface}: {error.strerror}") from None
    mtu_bytes = int(struct.unpack("16si", response)[1])
    for command in commands(shaping, interface, mtu_bytes + 14):  # 14: the Ethernet header
        run_tool(command)


def run_tool(command: Sequence[str]) -> None:
    """Run a tool of iproute2 or util-linux. Raises ShapingError if it fails or is missing."""
    env = with_tools()
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise ShapingError(f"{command[0]} not found: install {PACKAGES[command[0]]}") from None
    if done.returncode:
        raise ShapingError(explain(command, done.stderr))


def with_tools(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return an environment whose path includes the folders of the tools."""
    path = environ.get("PATH") or os.defpath
    return {**environ, "PATH": f"{path}:/usr/sbin:/sbin", "LC_ALL": "C"}


def explain(command: Sequence[str], stderr: str) -> str:
    """Return the reason why a command failed, from its standard error."""
    message = " ".join(stderr.split())
    if "not permitted" in message:
        return f"the capability NET_ADMIN is missing ({message})"
    module = next((_MODULES[word] for word in command if word in _MODULES), None)
    if module and any(word in message for word in ("nknown", "not found", "No such file")):
        return f"the kernel lacks the module {module}: modprobe {module} ({message})"
    return f"{' '.join(command)}: {message}"


def default_interface(root: Path = Path("/")) -> str | None:
    """Return the interface of the default route for IPv4, or else for IPv6; None without one."""

    def lines(path: Path) -> list[str]:
        try:
            return path.read_text().splitlines()
        except OSError:
            return []

    for line in lines(root / "proc/net/route"):
        interface, destination, *_ = line.split()
        if destination == "00000000":
            return interface
    for line in lines(root / "proc/net/ipv6_route"):
        destination, prefix_length, *_, interface = line.split()
        if (destination, prefix_length) == ("0" * 32, "00") and interface != "lo":
            return interface
    return None


def main() -> None:
    """Shape the outgoing traffic of this pod, or exit with the reason why that is impossible."""
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
