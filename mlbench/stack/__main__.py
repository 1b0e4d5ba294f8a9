"""A detached stack's process: ``mlbench up --detach`` starts it."""

import argparse
import sys

from mlbench.errors import MLBenchError
from mlbench.home import Home
from mlbench.stack.launch import configure_logging, run_in_front


def main() -> None:
    """Run until SIGTERM."""
    parser = argparse.ArgumentParser(prog="mlbench.stack", description=__doc__)
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--port", type=int)
    options = parser.parse_args()
    configure_logging()
    try:
        run_in_front(Home.from_environ(), options.workers, options.port)
    except MLBenchError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
