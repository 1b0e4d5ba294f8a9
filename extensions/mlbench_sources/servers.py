"""The server of a rank for clients of other libraries' servers: MLflow and the original MLBench."""

from collections.abc import Mapping

from mlbench_sources import mlbench_core, mlflow
from mlbench_sources.http_receiver import HttpReceiver, no_proxy_for
from mlbench_worker.agent.sources import Source, SourceContext


class Servers(Source):
    """Records values that libraries would otherwise send to their own servers."""

    def __init__(self, context: SourceContext) -> None:
        """Start the server, and direct the libraries to it."""
        assignment = context.assignment
        tracking = mlflow.Tracking(assignment.run_id, context.output)
        self._receiver = HttpReceiver(
            [tracking.answer, mlbench_core.Reports(assignment).answer],
            context.append,
            context.say,
            context.sockets,
            context.root,
        )
        self.secret = self._receiver.token
        attachment = assignment.attachment
        peers = (assignment.master_addr, attachment.network) if attachment else ()
        self.variables = {
            **no_proxy_for(context.environ, *peers),
            **mlflow.variables(context.environ, self._receiver),
            **mlbench_core.variables(context.environ, self._receiver),
        }

    @property
    def not_recorded(self) -> Mapping[str, int]:
        return self._receiver.not_recorded

    def close(self) -> None:
        self._receiver.close()
