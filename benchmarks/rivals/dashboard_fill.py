"""Makes the dashboard's tables, and two runs: one with samples, an empty one to post to.

Runs with the dashboard's Python: ``dashboard_fill.py SERIES SAMPLES``.
"""

import importlib
import random
import sys
from datetime import UTC, datetime, timedelta

import django  # type: ignore[import-not-found]  # not in .venv
from django.core.management import call_command  # type: ignore[import-not-found]  # not in .venv

_INTERVAL = timedelta(seconds=0.1)


def main() -> None:
    """Fill the database that the settings name."""
    series, samples = map(int, sys.argv[1:])
    django.setup()
    call_command("migrate", verbosity=0)
    models = importlib.import_module("api.models")
    now = datetime.now(UTC)
    steps = samples // series
    run = models.ModelRun.objects.create(name="read")
    # Its zip holds what lies between these two.
    run.created_at, run.finished_at = now - (steps + 1) * _INTERVAL, now
    run.save()
    models.ModelRun.objects.create(name="post")
    values = random.Random(0)  # noqa: S311 - the same values each time, not a secret
    models.KubeMetric.objects.bulk_create(
        [
            models.KubeMetric(
                name=f"metric_{metric} @ 0",
                date=now - (steps - step) * _INTERVAL,
                value=repr(values.random()),
                metadata="",
                cumulative=False,
                model_run=run,
            )
            for step in range(steps)
            for metric in range(series)
        ],
        batch_size=1000,
    )


if __name__ == "__main__":
    main()
