"""MLBench's original client, mlbench-core 3.0.0: how it is known, and what it alone is answered.

Its command line prints each field of the list of runs as a column, and looks for
those whose state is "finished".
"""

from falcon import Request

from mlbench.records import OriginalRun, Run


def is_original(req: Request) -> bool:
    """Tell whether a request is of MLBench's original client.

    It does not name itself: it sends what the library requests sends when told nothing, and has no
    place for the token but the address. Whoever says what it accepts, as MLBench's documentation
    shows it, is answered as documented.
    """
    is_plain = (req.user_agent or "").startswith("python-requests/") and req.accept == "*/*"
    return is_plain and (req.auth or "").lower().startswith("basic ")


def listed(run: Run) -> OriginalRun:
    """Return a run as it is in the list for this client."""
    return OriginalRun(
        run.id,
        run.name,
        run.created_at,
        run.state.lower(),
        run.num_workers,
        run.job_id,
        run.job_metadata,
    )
