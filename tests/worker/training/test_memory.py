"""What a step frees, the next one takes without asking the kernel."""

import subprocess
import sys

# Fills and frees a large tensor again and again, and prints how many pages the kernel gave.
_STEPS = """
import resource, sys, torch
from worker.training.memory import keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory()
for _ in range(30):  # until the heap has found its shape
    torch.ones(16 << 20)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    torch.ones(16 << 20)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _page_faults(mode: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", _STEPS, mode], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


def test_kept_memory_costs_no_page_faults() -> None:
    assert _page_faults("keep") < _page_faults("give back") / 20
