"""``/api/info/`` and ``/api/benchmarks/``: the installation, its limits and its benchmarks."""

from dataclasses import dataclass

from falcon import Request, Response

from mlbench.benchmarks.registry import BENCHMARKS, IMAGES
from mlbench.contract import records
from mlbench.contract.distribution import own_version
from mlbench.contract.fields import describe
from mlbench.contract.records import BandwidthLimit, Info, Link, RunLimits
from mlbench_master.database.connection import database_kind
from mlbench_master.openapi.operation import operation
from mlbench_master.settings import Settings


@dataclass(frozen=True)
class InfoResource:
    """The installation, and the benchmarks that runs may name."""

    settings: Settings

    @operation("get_info", "The installation.", Info)
    def on_get(self, req: Request, resp: Response) -> None:
        """Return version, limits, and the addresses of Grafana and Prometheus."""
        settings, limits = self.settings, self.settings.limits
        prometheus_url = settings.prometheus_public_url
        resp.media = Info(
            version=own_version(),
            pool=limits.pool,
            database=database_kind(),
            workers=settings.workers,
            limits=RunLimits(
                workers=limits.workers,
                cpus=float(limits.cpus),
                whole_cpus=limits.pool == "local",
                bandwidth=None if limits.no_bandwidth else BandwidthLimit(limits.bandwidth or None),
                gpus=limits.gpus,
                latency=not limits.no_latency,
            ),
            grafana=Link(settings.grafana_public_url) if settings.grafana_public_url else None,
            prometheus=Link(prometheus_url) if prometheus_url else None,
            user=req.context.caller.user,
            role=req.context.caller.role,
        )

    @operation("list_benchmarks", "All benchmarks.", list[records.Benchmark])
    def on_get_benchmarks(self, req: Request, resp: Response) -> None:
        """List benchmarks with their targets, options and the run fields that they support."""
        resp.media = [
            records.Benchmark(
                name=benchmark.name,
                description=benchmark.description,
                target=benchmark.target,
                light_target=benchmark.light_target,
                has_light_target=bool(benchmark.light_args),
                takes_seed=benchmark.seeded,
                takes_gpu=benchmark.on_gpu,
                backends=benchmark.backends_among(self.settings.limits.backends),
                rules=benchmark.rules,
                options=tuple(
                    records.BenchmarkOption(
                        name, option.default, option.choices, option.description
                    )
                    for name, option in describe(benchmark.options).items()
                    if name not in benchmark.args
                ),
                images=tuple(
                    name for name, image in IMAGES.items() if image.benchmark == benchmark.name
                ),
            )
            for benchmark in BENCHMARKS.values()
        ]
