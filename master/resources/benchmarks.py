"""``/api/benchmarks/``: the official tasks."""

from falcon import Request, Response

from master.benchmarks import BENCHMARKS


class BenchmarksResource:
    """What ``benchmark`` of a run may name."""

    def on_get(self, req: Request, resp: Response) -> None:
        """Answer with every official task, and which fields of a run it knows."""
        resp.media = [
            {
                "name": benchmark.name,
                "description": benchmark.description,
                "has_light_target": bool(benchmark.light_args),
                "takes_seed": benchmark.seeded,
            }
            for benchmark in BENCHMARKS.values()
        ]
