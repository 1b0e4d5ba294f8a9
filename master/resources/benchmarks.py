"""``/api/benchmarks/``: the official tasks."""

from dataclasses import asdict

from falcon import Request, Response

from master.benchmarks import BENCHMARKS, IMAGES


class BenchmarksResource:
    """What ``benchmark`` of a run may name."""

    def on_get(self, req: Request, resp: Response) -> None:
        """Answer with every official task: its goals, and which fields of a run it knows."""
        resp.media = [
            {
                "name": benchmark.name,
                "description": benchmark.description,
                "goal": benchmark.goal and asdict(benchmark.goal),
                "light_goal": benchmark.light_goal and asdict(benchmark.light_goal),
                "has_light_target": bool(benchmark.light_args),
                "takes_seed": benchmark.seeded,
                "takes_gpu": benchmark.on_gpu,
                "backends": benchmark.backends,
                "rules": benchmark.rules,
                "images": [
                    name for name, image in IMAGES.items() if image.benchmark == benchmark.name
                ],
            }
            for benchmark in BENCHMARKS.values()
        ]
