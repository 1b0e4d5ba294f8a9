"""Directs the original MLBench's library, and transformers, to the agent in each Python of a run.

Python imports this module at its start, because the agent adds this folder to PYTHONPATH. When a
library is imported, it is adapted. MLBench's library then works without a cluster, without folders
at the root of the file system, and with a new NumPy. transformers reports to MLBench by default.
The module also makes stacks, and PyTorch's collectives, available to the agent, and times the
communication of PyTorch code. The user's code may run in Python 3.6 or newer. Other code must not
be slowed down, so this module imports only modules that are built in, or already loaded.
"""

# ruff: noqa: PTH110, PTH118, PTH120 - pathlib is not loaded

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

    Run = Callable[[ModuleType], None]

_AGENT = os.environ.get("MLBENCH_AGENT", "")
# The options of the library for other folders, with their default folders.
_FOLDERS = {
    "--root-dataset": "/datasets",
    "--root-checkpoint": "/checkpoint",
    "--root-output": "/output",
}

_DIAGNOSIS = os.environ.get("MLBENCH_DIAGNOSIS", "")
# A real-time signal, because other code uses SIGUSR2. The agent sends it only to processes that
# have its pipe open.
_SHOW_STACKS = 57
_serving = set()  # type: set[int]
# Functions to call at the end of this process's first process group.
_ends = []  # type: list[Callable[[], None]]

# The name of MLBench in a Trainer's report_to if the script does not set it.
_BY_DEFAULT = "mlbench-by-default"


def _place(path: str) -> str:
    """Return a folder at the root if it exists, or else a folder of the worker."""
    if os.path.exists(path):
        return path
    own = os.path.dirname(os.path.dirname(os.environ["MLBENCH_METRICS_FILE"]))
    if path == "/datasets":
        home = os.environ.get("MLBENCH_HOME", own)
        return os.environ.get("MLBENCH_DATASETS") or os.path.join(home, "datasets")
    return own + path


def _call_the_agent(api: "Any") -> None:
    """Let a client that looks for the master find the agent."""
    api.ApiClient._ApiClient__get_in_cluster_url  # noqa: B018 - another version may lack it
    api.ApiClient._ApiClient__get_in_cluster_url = lambda *_: _AGENT


def _report(log_metrics: "Any") -> None:
    """Report to the agent. Without this, the library reports only in a cluster."""
    if not log_metrics.LogMetrics.in_cluster:
        log_metrics.LogMetrics.in_cluster = True
        log_metrics.LogMetrics.api = log_metrics.ApiClient()


def _give_folders(task_args: "Any") -> None:
    """Let tasks use folders that can be made."""
    parse = task_args._task_args

    def parse_with_folders(uid: str) -> object:
        words = [word for name, path in _FOLDERS.items() for word in (name, _place(path))]
        # Later options take precedence, so the user's options come last.
        sys.argv[1:1] = words
        return parse(uid)

    task_args._task_args = parse_with_folders


def _log_elsewhere(pytorch: "Any") -> None:
    """Change the default folders of logs and checkpoints to folders that can be made."""
    start = pytorch.initialize_backends.__wrapped__
    start.__defaults__ = tuple(
        _place(default) if str(default).startswith("/") else default
        for default in start.__defaults__
    )


def _has_callbacks() -> bool:
    from importlib.util import find_spec  # noqa: PLC0415 - transformers has loaded it

    return find_spec("mlbench_callbacks") is not None


def _report_by_default(training_args: "Any") -> None:
    """Make a Trainer of transformers 5 report to MLBench, unless its script sets report_to."""
    arguments = training_args.TrainingArguments
    field = arguments.__dataclass_fields__["report_to"]
    if field.default != "none" or not _has_callbacks():
        return
    init = arguments.__init__
    names = init.__code__.co_varnames[: init.__code__.co_argcount]
    defaults = list(init.__defaults__)
    defaults[names.index("report_to") - len(names)] = _BY_DEFAULT
    init.__defaults__ = tuple(defaults)
    # The default of derived classes.
    field.default = arguments.report_to = _BY_DEFAULT


def _know_the_default(integration_utils: "Any") -> None:
    """Register MLBench's callback, or one that does nothing if it cannot be imported."""
    if not _has_callbacks():
        return
    known = integration_utils.INTEGRATION_TO_CALLBACK
    known[_BY_DEFAULT] = integration_utils.TrainerCallback
    from mlbench_callbacks.transformers import DefaultCallback  # noqa: PLC0415

    known[_BY_DEFAULT] = DefaultCallback


def _try(show: "Callable[[], object]") -> None:
    try:  # noqa: SIM105 - contextlib is not loaded
        show()
    except Exception:  # noqa: S110
        pass  # The user's code must run in any case.


def _show_stacks() -> None:
    """Write the stacks of all threads on a signal, even during a C call that holds the GIL."""
    import faulthandler  # noqa: PLC0415 - it is built in

    # A pipe, because a disk may be full. It is open for reading, too, so that opening never blocks.
    pipe = os.open(os.path.join(_DIAGNOSIS, "stacks"), os.O_RDWR | os.O_NONBLOCK)
    faulthandler.register(_SHOW_STACKS, file=pipe)


def _note_untimed(field: str) -> None:
    """Record in the run's manifest why the communication of this process is not timed."""
    if os.environ.get("MLBENCH_ATTEMPT", "1") == "1":
        import json  # noqa: PLC0415
        import time  # noqa: PLC0415

        line = json.dumps({"time": time.time(), "not_recorded": {field: 1}}) + "\n"
        with open(os.environ["MLBENCH_METRICS_FILE"], "ab", buffering=0) as file:  # noqa: PTH123
            file.write(line.encode())


def _import_extension(name: str) -> "Any":
    """Import a module of an extension; it and MLBench may be in another Python's folders."""
    from importlib import import_module  # noqa: PLC0415
    from importlib.machinery import PathFinder  # noqa: PLC0415

    # A Python without mlbench imports the agent's.
    of_mlbench = extension = os.path.dirname(os.path.dirname(_here))
    while PathFinder.find_spec("mlbench", [of_mlbench]) is None and len(of_mlbench) > 1:
        of_mlbench = os.path.dirname(of_mlbench)
    path = sys.path[:]
    sys.path += [extension, of_mlbench]
    try:
        return import_module(name)
    finally:
        sys.path[:] = path


def _respond_with_profile(request: object, response: object) -> None:
    """Profile this process (``mlbench_diagnosis/torch_profile.py``)."""
    _import_extension("mlbench_diagnosis.torch_profile").respond(request, response)


def _say_untimed(distributed: "Any") -> None:
    """Say that JAX's programs contain their exchanges, so that nothing can time them."""
    initialize = distributed.initialize

    def initialize_and_say(*args: "Any", **kwargs: "Any") -> None:
        initialize(*args, **kwargs)
        _try(lambda: _note_untimed("untimed_jax_ranks"))

    distributed.initialize = initialize_and_say


def _show_collectives(c10d: "Any") -> None:
    """Time the communication of a process, and serve its collectives, in a process group."""
    update = getattr(c10d, "_update_default_pg", None)
    if update is None:  # another version of PyTorch
        return

    def update_and_serve(group: object) -> None:
        if group is None:
            for end in _ends:
                _try(end)
        update(group)
        # The tracker of MLBench's original library times the steps itself.
        times_itself = "mlbench_core.utils.log_metrics" in sys.modules
        is_timed = os.environ.get("MLBENCH_TIME_COMMUNICATION") != "0" and not times_itself
        if group is not None and is_timed and not _ends:
            try:
                if sys.version_info < (3, 11):  # noqa: UP036 - the user's Python
                    _note_untimed("untimed_python_ranks")
                else:
                    watch = _import_extension("mlbench_sources.collectives").watch
                    _ends.append(watch(_note_untimed))
            except Exception as error:
                print("mlbench: communication is not timed:", repr(error), file=sys.stderr)
        if group is not None and os.getpid() not in _serving:
            _serving.add(os.getpid())
            _try(_serve_collectives)
            show = sys.excepthook

            def leave_and_show(*error: "Any") -> None:
                _try(_leave_collectives)
                show(*error)

            sys.excepthook = leave_and_show

    c10d._update_default_pg = update_and_serve


def _serve_collectives() -> None:
    """Start PyTorch's server of its flight recorder, which works without the GIL, and profiler."""
    import ctypes  # noqa: PLC0415 - torch has loaded it

    from torch._C import _distributed_c10d as c10d  # noqa: PLC0415

    # Other versions of PyTorch may not have this handler.
    _try(lambda: c10d._register_handler("mlbench_profile", _respond_with_profile))
    # The path of a socket has at most 108 bytes, and /proc has a shorter path of the folder.
    folder = os.open(_DIAGNOSIS, os.O_RDONLY)
    stderr, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)  # the server prints a message at its start
        server = c10d._WorkerServer("/proc/self/fd/%d/%d" % (folder, os.getpid()))  # noqa: UP031
    finally:
        os.dup2(stderr, 2)
        for descriptor in (folder, stderr, null):
            os.close(descriptor)
    # Never destroyed: the server's destructor aborts the process, and hangs in a fork. PyTorch
    # releases the handler after the end of the interpreter, which would abort the process, too.
    for lasting in (server, _respond_with_profile):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(lasting))


def _leave_collectives() -> None:
    """Write the trace of the flight recorder to a file."""
    from torch._C import _distributed_c10d as c10d  # noqa: PLC0415

    with open(os.path.join(_DIAGNOSIS, "%d.json" % os.getpid()), "wb") as file:  # noqa: PTH123, UP031
        file.write(c10d._dump_fr_trace_json())  # type: ignore[attr-defined]


def _then(adapt: "Callable[[Any], None]") -> "Callable[[Run], Run]":
    """Return a wrapper of a module's execution that adapts the module afterwards."""

    def with_it(run: "Run") -> "Run":
        def run_and_adapt(module: "ModuleType") -> None:
            run(module)
            try:
                adapt(module)
            except Exception as error:
                # The training must continue in any case.
                library = module.__name__.partition(".")[0].replace("_", "-")
                words = f"MLBench cannot record what this version of {library} reports:"
                print(words, repr(error), file=sys.stderr)

        return run_and_adapt

    return with_it


def _with_float(run: "Run") -> "Run":
    """Execute a module with ``numpy.float``, which NumPy has removed in 1.24."""

    def run_with_it(module: "ModuleType") -> None:
        import numpy as np  # noqa: PLC0415 - by then the library has it

        if hasattr(np, "float"):
            run(module)
            return
        np.float = float  # type: ignore[attr-defined]
        try:
            run(module)
        finally:
            del np.float  # type: ignore[attr-defined]

    return run_with_it


_ADAPTED = {
    "mlbench_core.api": _then(_call_the_agent),
    "mlbench_core.dataset.nlp.pytorch.wmt17_dataset": _with_float,
    "mlbench_core.utils.log_metrics": _then(_report),
    "mlbench_core.utils.pytorch": _then(_log_elsewhere),
    "mlbench_core.utils.task_args": _then(_give_folders),
    "jax._src.distributed": _then(_say_untimed),
    "torch.distributed.distributed_c10d": _then(_show_collectives),
    "transformers.integrations.integration_utils": _then(_know_the_default),
    "transformers.training_args": _then(_report_by_default),
}


class _Finder:
    """Finds the modules to adapt by the other finders, and wraps their execution."""

    def find_spec(
        self, name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        adapt = _ADAPTED.get(name)
        if adapt is None:
            return None
        others = (getattr(item, "find_spec", None) for item in sys.meta_path if item is not self)
        specs = (find(name, path, target) for find in others if find)
        spec: ModuleSpec | None = next(filter(None, specs), None)
        if spec is None or spec.loader is None:
            return spec
        loader: Any = spec.loader
        loader.exec_module = adapt(loader.exec_module)
        return spec


if _AGENT:
    sys.meta_path.insert(0, _Finder())
    for _name in _ADAPTED.keys() & sys.modules.keys():  # loaded before a fork
        _ADAPTED[_name](lambda module: None)(sys.modules[_name])
if _DIAGNOSIS:
    _try(_show_stacks)

# Remove this folder from the path, and import the user's own sitecustomize, if there is one.
_here = os.path.dirname(__file__)
sys.path[:] = [place for place in sys.path if place != _here]
_this = sys.modules.pop(__name__)
try:
    __import__(__name__)
except ImportError as error:
    if error.name != __name__:
        raise
sys.modules.setdefault(__name__, _this)
