"""Which master is meant: the one that the environment names, or the local stack's."""

import os
from collections.abc import Mapping

from mlbench import names
from mlbench.client.address import parse_address
from mlbench.errors import MLBenchError, NotConnectedError
from mlbench.home import Connection, Home

HINT_ELSEWHERE = (
    f"is ${names.ENV_URL} right, and does the way to it stand, as of kubectl port-forward?"
)


def find_connection(environ: Mapping[str, str] = os.environ) -> Connection:
    """Return how to reach the master at $MLBENCH_URL, or else the running local stack.

    $MLBENCH_TOKEN is its token, unless the address carries one; $MLBENCH_PROMETHEUS_URL and
    $GRAFANA_URL are its Prometheus and Grafana as they are reached from here, where they are.

    Raises:
        NotConnectedError: only one of address and token is there, or no local stack is running.
        MLBenchError: the address is none.
    """
    url, token = environ.get(names.ENV_URL), environ.get(names.ENV_TOKEN)
    if not url:
        if token:
            raise NotConnectedError(
                f"${names.ENV_TOKEN} is set and ${names.ENV_URL} is not: set it to the address of "
                "this token's master, or unset the token, for the stack on this machine"
            )
        return Home.from_environ(environ).read_connection()
    try:
        address = parse_address(url)
    except MLBenchError as error:
        raise MLBenchError(f"${names.ENV_URL} is {url!r}: {error}") from None
    token = token or address.token
    if not token:
        raise NotConnectedError(
            f"${names.ENV_URL} is set and ${names.ENV_TOKEN} is not: set it to the token of this "
            "master; in a cluster a Secret holds it"
        )
    return Connection(
        str(address.url).rstrip("/"),
        token,
        environ.get(names.ENV_PROMETHEUS_URL) or None,
        environ.get(names.ENV_GRAFANA_URL) or None,
        elsewhere=True,
    )
