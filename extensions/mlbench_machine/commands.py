"""Commands of ``mlbench`` that care for a stack on one machine."""

from collections.abc import Mapping

COMMANDS: Mapping[str, tuple[str, str]] = {
    "backup": (
        "mlbench_machine.backup:backup",
        "Write the runs of the local stack to a file, even during runs.",
    ),
    "restore": (
        "mlbench_machine.backup:restore",
        "Restore a backup into a new home folder, or into a volume without files.",
    ),
    "service": (
        "mlbench_machine.service:app",
        "Let systemd start the local stack with the machine.",
    ),
}
