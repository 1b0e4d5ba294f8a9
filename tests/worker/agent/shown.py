"""Print the properties of this process as JSON; with "wait", keep running."""

import json
import os
import sys
import time
from pathlib import Path

import torch


def main() -> None:
    """Print the properties on a line of stdout, and the process id on stderr."""
    given = {
        "environ": sorted(filter(None, Path("/proc/self/environ").read_text().split("\0"))),
        "variables": dict(os.environ),
        "cores": sorted(os.sched_getaffinity(0)),
        "threads": torch.get_num_threads(),
        "limits": Path("/proc/self/limits").read_text(),
        "folder": str(Path.cwd()),
        "network": str(Path("/proc/self/ns/net").readlink()),
        "leads": os.getsid(0) == os.getpgid(0) == os.getpid(),
        "arguments": sys.argv[1:],
        "hash": hash("text"),
    }
    print(os.getpid(), file=sys.stderr, flush=True)
    print(json.dumps(given), flush=True)
    if sys.argv[1:] == ["wait"]:
        time.sleep(60)
    sys.exit(3)


if __name__ == "__main__":
    main()
