"""Calls about what runs reached: the result of one, and several side by side."""

from collections.abc import Sequence
from concurrent.futures import Future

from mlbench.client.answers import Answer
from mlbench.client.asking import Asker, path_part
from mlbench.results import Comparison, Result


class ResultCalls:
    """What ``ApiClient`` asks about results.

    In both calls, ``goal`` is the target, such as ``"val_loss<=0.1"`` or ``"acc>=97"``, instead of
    each run's own; ``after_seconds`` is the time of accuracy after time, instead of the run's
    deadline or two hours; ``price`` is that of a worker-second, in whatever currency.
    """

    _asker: Asker

    def get_result(
        self,
        run_id: int | str,
        *,
        goal: str | None = None,
        after_seconds: float | None = None,
        price: float | None = None,
    ) -> Future[Answer[Result]]:
        """Ask for what a run reached; so far, if it goes on."""
        path = f"/api/runs/{path_part(run_id)}/result/"
        wishes = _wishes(goal, after_seconds, price)
        return self._asker.ask("GET", path, Result.from_fields, params=wishes)

    def compare(
        self,
        run_ids: Sequence[int | str],
        *,
        goal: str | None = None,
        after_seconds: float | None = None,
        price: float | None = None,
    ) -> Future[Answer[Comparison]]:
        """Ask for several runs side by side, and whether they can be compared; 200 at most."""
        runs = {"runs": ",".join(map(str, run_ids))}
        wishes = _wishes(goal, after_seconds, price)
        return self._asker.ask("GET", "/api/compare/", Comparison.from_fields, params=runs | wishes)


def _wishes(goal: str | None, after_seconds: float | None, price: float | None) -> dict[str, str]:
    given = {"goal": goal, "after": after_seconds, "price": price}
    return {name: str(value) for name, value in given.items() if value is not None}
