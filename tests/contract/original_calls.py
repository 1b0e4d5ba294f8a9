"""Call the original MLBench client as requested on stdin, and print the results.

Requests and results are JSON lines. The script runs in the Python environment of the original
client, so it must not import mlbench.

Usage: original_calls.py user:TOKEN@HOST:PORT
"""

import base64
import json
import sys
from datetime import datetime
from typing import Any

from mlbench_core.api import ApiClient


def _argument(value: Any) -> Any:
    """Convert a JSON argument. JSON has no dates, so they are sent as objects."""
    return datetime.fromisoformat(value["datetime"]) if isinstance(value, dict) else value


def _call(client: ApiClient, method: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    arguments = {name: _argument(value) for name, value in kwargs.items()}
    try:
        answer = getattr(client, method)(*args, **arguments).result()
    except Exception as error:
        return {"raised": repr(error)}
    return {
        "status": answer.status_code,
        "headers": dict(answer.headers),
        "body": base64.b64encode(answer.content).decode(),
    }


def main() -> None:
    """Print one result line per request line."""
    with ApiClient(url=sys.argv[1], load_config=False) as client:
        for line in sys.stdin:
            print(json.dumps(_call(client, **json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
