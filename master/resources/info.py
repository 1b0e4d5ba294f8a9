"""``/api/info/``: what this installation is, what a run may ask for, and where else to look."""

from dataclasses import dataclass
from importlib.metadata import version

from falcon import Request, Response

from master.settings import Limits, Settings


@dataclass(frozen=True)
class InfoResource:
    """The installation."""

    settings: Settings

    def on_get(self, req: Request, resp: Response) -> None:
        """Answer with its version, its limits, and the Grafana and Prometheus beside it."""
        settings = self.settings
        # A cluster's Prometheus is for the master alone.
        prometheus_url = settings.prometheus_url if settings.pool == "local" else None
        resp.media = {
            "version": version("mlbench"),
            "pool": settings.pool,
            "workers": settings.workers,
            "limits": _limits(settings.limits),
            "grafana": _place(settings.grafana_public_url),
            "prometheus": _place(prometheus_url),
        }


def _limits(limits: Limits) -> dict[str, object]:
    is_local = limits.pool == "local"
    return {
        "workers": limits.workers,
        "cpus": float(limits.cpus),
        "whole_cpus": is_local,
        "bandwidth": None if is_local else {"most": limits.bandwidth or None},
        "gpus": limits.gpus,
    }


def _place(url: str | None) -> dict[str, str] | None:
    return {"url": url} if url else None
