"""What goes wrong, and what is lost by it: processes killed, Prometheus hung or empty, a full disk.

``python -m benchmarks.run faults`` prints a line for each fault. ``FAULT_KILLS`` says how many
processes are killed on each database, 100 if it is not set.
"""

from benchmarks.faults.table import measure

__all__ = ["measure"]
