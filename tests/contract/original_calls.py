"""Call MLBench's original client as JSON lines on stdin say, and write what it got.

This runs with the Python that has that client, and so imports nothing of ours.
usage: original_calls.py user:TOKEN@HOST:PORT
"""

import base64
import json
import sys
from datetime import datetime
from typing import Any

from mlbench_core.api import ApiClient


def _argument(value: Any) -> Any:
    """Return the argument that a JSON value stands for: JSON has no dates."""
    return datetime.fromisoformat(value["datetime"]) if isinstance(value, dict) else value


def _call(client: ApiClient, method: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    given = {name: _argument(value) for name, value in kwargs.items()}
    try:
        answer = getattr(client, method)(*args, **given).result()
    except Exception as error:
        return {"raised": repr(error)}
    return {
        "status": answer.status_code,
        "headers": dict(answer.headers),
        "body": base64.b64encode(answer.content).decode(),
    }


def main() -> None:
    """Answer each line with one."""
    with ApiClient(url=sys.argv[1], load_config=False) as client:
        for line in sys.stdin:
            print(json.dumps(_call(client, **json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
