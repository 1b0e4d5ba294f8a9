"""Commands of ``mlbench`` that share runs."""

from collections.abc import Mapping

COMMANDS: Mapping[str, tuple[str, str]] = {
    "export": (
        "mlbench_publish.share:export",
        "Write the archive of a run or of a benchmark set to a file.",
    ),
    "import": ("mlbench_publish.share:import_", "Import exported runs, read only."),
    "publish": ("mlbench_publish.share:publish", "Build a static website from archives."),
}
