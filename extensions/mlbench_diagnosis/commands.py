"""Commands of ``mlbench`` that look into the ranks of a run."""

from collections.abc import Mapping

COMMANDS: Mapping[str, tuple[str, str]] = {
    "diagnose": (
        "mlbench_diagnosis.diagnose:diagnose",
        "Diagnose why a run hangs, and which rank is at fault.",
    ),
    "stacks": (
        "mlbench_diagnosis.diagnose:stacks",
        "Show the Python stacks of all ranks of a run, as one tree.",
    ),
    "profile": (
        "mlbench_diagnosis.profile:profile",
        "Profile a rank with PyTorch's profiler or py-spy.",
    ),
}
