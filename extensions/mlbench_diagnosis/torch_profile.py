"""Profiles a process by PyTorch's profiler, and samples the stack of its main thread meanwhile.

PyTorch's debug server of a process with a process group imports this module for its first profile
(``mlbench_sources/hook/sitecustomize.py``). The response is a line of JSON with the samples, then
the trace. The user's Python runs this module, so it needs the standard library and PyTorch only.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

# A thread that wants to run waits for this time, or until another one calls C code that lets it.
# With Python's 5 ms, most samples would find the main thread at the beginning of such calls.
_SWITCH_SECONDS = 1e-4


def respond(request: Any, response: Any) -> None:
    """Respond with a profile; the request's parameter ``duration`` is its length in seconds."""
    from torch._C._profiler import _ExperimentalConfig  # noqa: PLC0415
    from torch.profiler import profile  # noqa: PLC0415

    thread = threading.main_thread()
    unix_time = time.time_ns() - time.monotonic_ns()
    numbers: dict[tuple[str, str, int], int] = {}
    samples: list[tuple[int, list[int]]] = []
    switch_seconds = sys.getswitchinterval()
    config = _ExperimentalConfig(profile_all_threads=True)
    with profile(record_shapes=True, experimental_config=config) as recorded:
        sys.setswitchinterval(_SWITCH_SECONDS)
        try:
            began = unix_time + time.monotonic_ns()
            end = began + int(float(request.get_param("duration")) * 1e9)
            while not samples or samples[-1][0] < end:
                time.sleep(0.01)
                frame = sys._current_frames().get(thread.ident or 0)
                now, stack = unix_time + time.monotonic_ns(), []
                while frame is not None:
                    code = frame.f_code
                    place = (code.co_name, code.co_filename, frame.f_lineno or 0)
                    stack.append(numbers.setdefault(place, len(numbers)))
                    frame = frame.f_back
                samples.append((now, stack[::-1]))
        finally:
            sys.setswitchinterval(switch_seconds)
    fields = {
        # Linux numbers a main thread like its process; Python's `native_id` is stale after a fork.
        "thread": os.getpid(),
        "began": began,
        "frames": list(numbers),
        "samples": samples,
    }
    with TemporaryDirectory(prefix="mlbench") as folder:
        path = Path(folder, "trace.json")
        recorded.export_chrome_trace(str(path))
        content = json.dumps(fields).encode() + b"\n" + path.read_bytes()
    response.set_content(content, "application/json")
    response.set_status(200)
