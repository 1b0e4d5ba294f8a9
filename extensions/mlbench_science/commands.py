"""Commands of ``mlbench`` for experiments."""

from collections.abc import Mapping

COMMANDS: Mapping[str, tuple[str, str]] = {
    "fault": ("mlbench_science.fault:fault", "Inject a fault into a rank of an active run."),
    "whatif": (
        "mlbench_science.whatif:whatif",
        "Predict the step time of a run after one change.",
    ),
}
