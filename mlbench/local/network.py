"""The network of local workers: a switch, into which the namespaces of their processes are plugged.

The switch is a bridge in a network namespace, which exists as long as the process that holds it. A
user without the right to make one makes it in a user namespace.
"""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mlbench.contract.shaping import PACKAGES, SWITCH, Shaping, commands, explain, with_tools

SERVICE = "network"
_BRIDGE = (
    f"ip link add {SWITCH} type bridge forward_delay 0 mcast_snooping 0",
    f"ip link set {SWITCH} addrgenmode none up",
)
_CABLE = ("ip link add eth0 type veth peer name other",)
# In this order, because readers of the process id rely on the bridge.
_HOLD = ('echo $$ >"$1.new"', 'mv "$1.new" "$1"', "exec sleep infinity")
# Settings that forbid a user to make namespaces, with the value that does, and one that does not.
_FORBIDDING = {
    "kernel.apparmor_restrict_unprivileged_userns": ("1", "0"),
    "kernel.unprivileged_userns_clone": ("0", "1"),
    "user.max_user_namespaces": ("0", "10000"),
}
_NO_BANDWIDTH = "the bandwidth of workers here cannot be limited"
_NO_LATENCY = "what workers here send can be neither late nor lost"


@dataclass(frozen=True)
class LocalNetwork:
    """Network abilities of this machine; each field is the reason for a lack, empty if able."""

    no_bandwidth: str = ""
    no_latency: str = ""
    unshare: tuple[str, ...] = ()
    """Command prefix that runs a command as root of a new network namespace."""

    def switch(self, file: Path) -> tuple[str, ...]:
        """Return the command that holds a switch, and writes its process's number to a file."""
        return (*_in_namespace(self.unshare, *_BRIDGE, *_HOLD), SWITCH, str(file))


def probe() -> LocalNetwork:
    """Find out what this machine can do by trying it once, within a tenth of a second."""
    problem = ""
    if sys.platform != "linux":
        problem = "it takes Linux and its network namespaces"
    for tool, package in () if problem else PACKAGES.items():
        if shutil.which(tool, path=with_tools()["PATH"]) is None:
            problem = f"{tool} not found: install {package}"
            break
    # Commands that make a namespace, each with one that runs another as this user in it.
    user, group = os.geteuid(), os.getegid()
    become = f"unshare --user --map-user={user} --map-group={group} true"
    ways: list[tuple[tuple[str, ...], str]] = [
        (("unshare", "--user", "--map-root-user", "--net"), become)
    ]
    if user == 0:
        ways.insert(0, (("unshare", "--net"), "true"))
    for unshare, become in () if problem else ways:
        attach = f"ip link set other master {SWITCH}"
        limit = _shaped(Shaping(max_bandwidth=1))
        problem = _try(unshare, *_BRIDGE, *_CABLE, attach, *limit, become)
        if not problem:
            late = _try(unshare, *_CABLE, *_shaped(Shaping(latency_ms=1)))
            return LocalNetwork("", f"{_NO_LATENCY}: {late}" if late else "", unshare)
    return LocalNetwork(f"{_NO_BANDWIDTH}: {problem}", f"{_NO_LATENCY}: {problem}")


def _shaped(shaping: Shaping) -> tuple[str, ...]:
    return tuple(shlex.join(words) for words in commands(shaping, "eth0"))


def _in_namespace(unshare: Sequence[str], *lines: str) -> tuple[str, ...]:
    return (*unshare, "sh", "-exc", "\n".join(lines))


def _try(unshare: Sequence[str], *lines: str) -> str:
    """Run shell lines in a namespace, and return why a line fails; empty if all succeed."""
    command = _in_namespace(unshare, *lines)
    done = subprocess.run(command, env=with_tools(), capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    # The shell writes each command before it runs it.
    _, traced, output = f"\n{done.stderr}".rpartition("\n+ ")
    failed, _, output = output.partition("\n") if traced else ("unshare", "", output)
    reason = explain(shlex.split(failed), output)
    for name, (forbids, allows) in _FORBIDDING.items():
        path = Path("/proc/sys", *name.split("."))
        if path.is_file() and path.read_text().strip() == forbids:
            reason += f"; an administrator allows it by `sysctl {name}={allows}`"
    return reason
