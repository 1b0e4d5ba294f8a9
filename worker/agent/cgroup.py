"""The limits that Linux's control groups set to this process: cores and memory.

Both versions of control groups are read, and all groups from the own one up to the root, as the
tightest limit holds. Inside a container the own group may be mounted as the root.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath


def cpu_limit(root: Path = Path("/")) -> float | None:
    """Return how many cores' worth of time may be used; None where that is not limited."""
    found = [
        *(_words(group / "cpu.max") for group in _groups(root, "")),
        *(
            [*_words(group / "cpu.cfs_quota_us"), *_words(group / "cpu.cfs_period_us")]
            for group in _groups(root, "cpu")
        ),
    ]
    return min((cores for words in found if (cores := _cores(words))), default=None)


def memory_limit(root: Path = Path("/")) -> int | None:
    """Return how many bytes of memory may be used; None where that is not limited.

    The first version of control groups spells no limit as one that no machine reaches.
    """
    found = [
        *(_words(group / "memory.max") for group in _groups(root, "")),
        *(_words(group / "memory.limit_in_bytes") for group in _groups(root, "memory")),
    ]
    return min((int(word) for words in found for word in words if word.isdecimal()), default=None)


def killed_for_memory(root: Path = Path("/")) -> int:
    """Return how many processes of its group the kernel has killed as they had too much memory."""
    counted = [
        *(group / "memory.events" for group in _groups(root, "")),
        *(group / "memory.oom_control" for group in _groups(root, "memory")),
    ]
    for path in counted:
        for line in _lines(path):
            match line.split():
                case ["oom_kill", count]:
                    return int(count)
    return 0


def _cores(words: Sequence[str]) -> float | None:
    """Return what a quota in a period is, both in microseconds; a quota of max or -1 is none."""
    match words:
        case [quota, period] if quota.isdecimal() and period.isdecimal():
            return int(quota) / int(period)
        case _:
            return None


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of this process's groups; the second version has no single controllers."""
    for line in _lines(root / "proc/self/cgroup"):
        controllers, _, path = line.partition(":")[2].partition(":")
        if controller in controllers.split(","):
            own = PurePosixPath(path.lstrip("/"))
            for group in (own, *own.parents):
                yield root / "sys/fs/cgroup" / controller / group


def _words(path: Path) -> list[str]:
    return [word for line in _lines(path) for word in line.split()]


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
