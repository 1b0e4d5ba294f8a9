"""Limits that several parts check or keep to: lengths in characters, sizes in bytes."""

from typing import Final

MAX_RUN_NAME_LENGTH: Final = 100
"""Name that a user gives a run."""

MAX_RESOURCE_NAME_LENGTH: Final = 40
"""Name of a run in Kubernetes, and of a benchmark set."""

MAX_COMMAND_LENGTH: Final = 4096
"""Command line of a run."""

MAX_PATH_LENGTH: Final = 4096
"""Path of a folder on a worker, as Linux limits it (PATH_MAX)."""

MAX_METRIC_NAME_LENGTH: Final = 200
"""Name of a metric or of a setting."""

MAX_METRIC_TEXT_LENGTH: Final = 64 << 10
"""Text that is recorded as the value of a metric."""

MAX_SETTINGS: Final = 500
"""Number of settings that a process reports."""

MAX_SETTING_LENGTH: Final = 1024
"""Text of a setting."""

MAX_FACT_LENGTH: Final = 1024
"""Text that describes a machine, such as its processor model."""

MAX_ERROR_LENGTH: Final = 500
"""Error that an agent reports: the failure of a rank, or the problem with an injected fault."""

MAX_EVIDENCE_BYTES: Final = 256 << 10
"""Evidence of a worker for a hang diagnosis, as JSON."""

PAST_MS: Final = 23 * 3600 * 1000
"""Greatest age of a sample that is sent to Prometheus, in milliseconds.

It is below `out_of_order_time_window` in prometheus.yml; Prometheus refuses older samples.
"""
