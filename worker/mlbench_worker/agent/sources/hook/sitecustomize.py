"""Leads MLBench's original library, and transformers, to the agent in every Python of a run.

Python imports this as it starts, since the agent has put this folder into PYTHONPATH. It waits
until a library is imported, and adapts what of MLBench's looks for a cluster, for folders at the
root of the file system, or for an older NumPy, and where transformers reports to by itself. Where a
process hangs, it lets the agent see its stacks, and PyTorch's collectives. The user's code may have
an old Python: this is for 3.6 and newer. A Python that imports none of these must not notice it, so
nothing is imported here that is not loaded anyway, or built in.
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
# The folders that the library uses, and the options that name others.
_FOLDERS = {
    "--root-dataset": "/datasets",
    "--root-checkpoint": "/checkpoint",
    "--root-output": "/output",
}

_AUTOPSY = os.environ.get("MLBENCH_AUTOPSY", "")
# Of Linux's real-time signals, as other code has uses for SIGUSR2. The agent sends it only to those
# that have its pipe open.
_SHOW_STACKS = 57
_serving = set()  # type: set[int]

# Where a Trainer reports to whose script does not say it.
_BY_DEFAULT = "mlbench-by-default"


def _place(path: str) -> str:
    """Return a place at the root if it is there, or else one in the worker's own folder."""
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
    """Report here too: by itself, it reports only where it sees a cluster."""
    if not log_metrics.LogMetrics.in_cluster:
        log_metrics.LogMetrics.in_cluster = True
        log_metrics.LogMetrics.api = log_metrics.ApiClient()


def _give_folders(task_args: "Any") -> None:
    """Let tasks use folders that can be made."""
    parse = task_args._task_args

    def parse_with_folders(uid: str) -> object:
        words = [word for name, path in _FOLDERS.items() for word in (name, _place(path))]
        # In front: of an option that is given twice, the last one counts.
        sys.argv[1:1] = words
        return parse(uid)

    task_args._task_args = parse_with_folders


def _log_elsewhere(pytorch: "Any") -> None:
    """Let logs and checkpoints without a name lie where they can be made."""
    start = pytorch.initialize_backends.__wrapped__
    start.__defaults__ = tuple(
        _place(one) if str(one).startswith("/") else one for one in start.__defaults__
    )


def _has_mlbench() -> bool:
    from importlib.util import find_spec  # noqa: PLC0415 - transformers has loaded it

    return find_spec("mlbench") is not None


def _report_by_default(training_args: "Any") -> None:
    """Let a Trainer of transformers 5 report here, unless its script says where, or says none."""
    arguments = training_args.TrainingArguments
    field = arguments.__dataclass_fields__["report_to"]
    if field.default != "none" or not _has_mlbench():
        return
    init = arguments.__init__
    names = init.__code__.co_varnames[: init.__code__.co_argcount]
    defaults = list(init.__defaults__)
    defaults[names.index("report_to") - len(names)] = _BY_DEFAULT
    init.__defaults__ = tuple(defaults)
    # Of those that are derived from it.
    field.default = arguments.report_to = _BY_DEFAULT


def _know_the_default(integration_utils: "Any") -> None:
    """Let a Trainer know what reports here; it does nothing where that cannot be imported."""
    if not _has_mlbench():
        return
    known = integration_utils.INTEGRATION_TO_CALLBACK
    known[_BY_DEFAULT] = integration_utils.TrainerCallback
    from mlbench.integrations.transformers import DefaultCallback  # noqa: PLC0415

    known[_BY_DEFAULT] = DefaultCallback


def _try(show: "Callable[[], None]") -> None:
    try:  # noqa: SIM105 - contextlib is not loaded
        show()
    except Exception:  # noqa: S110
        pass  # Whatever is otherwise here, the code goes on.


def _show_stacks() -> None:
    """Have a signal write where all threads are, even while a call in C has the interpreter."""
    import faulthandler  # noqa: PLC0415 - it is built in

    # A pipe, as a disk may be full; open for both, so that it never has to be waited for.
    pipe = os.open(os.path.join(_AUTOPSY, "stacks"), os.O_RDWR | os.O_NONBLOCK)
    faulthandler.register(_SHOW_STACKS, file=pipe)


def _show_collectives(c10d: "Any") -> None:
    """Let the agent ask for a process's collectives, from when it has a process group."""
    update = getattr(c10d, "_update_default_pg", None)
    if update is None:  # of another version
        return

    def update_and_serve(group: object) -> None:
        update(group)
        if group is not None and os.getpid() not in _serving:
            _serving.add(os.getpid())
            _try(_serve_collectives)
            sys.excepthook = _then_show(sys.excepthook)

    c10d._update_default_pg = update_and_serve


def _serve_collectives() -> None:
    """Start PyTorch's server of its flight recorder, which needs no interpreter, and profiler."""
    import ctypes  # noqa: PLC0415 - torch has loaded it

    from torch._C._distributed_c10d import _WorkerServer  # noqa: PLC0415

    _try(_add_profiler)
    # A socket's path is short, the folder's may be long.
    folder = os.open(_AUTOPSY, os.O_RDONLY)
    stderr, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)  # it says that it listens
        server = _WorkerServer("/proc/self/fd/%d/%d" % (folder, os.getpid()))  # noqa: UP031
    finally:
        os.dup2(stderr, 2)
        for descriptor in (folder, stderr, null):
            os.close(descriptor)
    # For ever: its destructor aborts the process, and in a fork it hangs.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(server))


def _then_show(show: "Callable[..., object]") -> "Callable[..., object]":
    """Return what has a process that fails leave its last collectives, and then shows its error."""

    def leave_and_show(*error: object) -> None:
        _try(_leave_collectives)
        show(*error)

    return leave_and_show


def _leave_collectives() -> None:
    """Write what the server of the flight recorder would answer."""
    from torch._C import _distributed_c10d as c10d  # noqa: PLC0415

    with open(os.path.join(_AUTOPSY, "%d.json" % os.getpid()), "wb") as file:  # noqa: PTH123, UP031
        file.write(c10d._dump_fr_trace_json())  # type: ignore[attr-defined]


def _add_profiler() -> None:
    """Let the server have PyTorch's profiler too, which older ones lack."""
    import torch.distributed.debug._handlers  # noqa: F401, PLC0415 - torch is loaded


def _then(adapt: "Callable[[Any], None]") -> "Callable[[Run], Run]":
    """Return what has a module adapted once it is run."""

    def with_it(run: "Run") -> "Run":
        def run_and_adapt(module: "ModuleType") -> None:
            run(module)
            try:
                adapt(module)
            except Exception as error:
                # A training goes on, whatever there is.
                library = module.__name__.partition(".")[0].replace("_", "-")
                words = f"MLBench cannot record what this version of {library} reports:"
                print(words, repr(error), file=sys.stderr)

        return run_and_adapt

    return with_it


def _with_float(run: "Run") -> "Run":
    """Have a module run while NumPy has its ``float`` again, which it lacks since 1.24."""

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
    "torch.distributed.distributed_c10d": _then(_show_collectives),
    "transformers.integrations.integration_utils": _then(_know_the_default),
    "transformers.training_args": _then(_report_by_default),
}


class _Finder:
    """Finds the modules to adapt as all others are found, and has them adapted as they are run."""

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
    for _name in _ADAPTED.keys() & sys.modules.keys():  # of a process that was forked
        _ADAPTED[_name](lambda module: None)(sys.modules[_name])
if _AUTOPSY:
    _try(_show_stacks)

# Here must be no other module's place, and the user may have a sitecustomize too.
_here = os.path.dirname(__file__)
sys.path[:] = [place for place in sys.path if place != _here]
_this = sys.modules.pop(__name__)
try:
    __import__(__name__)
except ImportError as error:
    if error.name != __name__:
        raise
sys.modules.setdefault(__name__, _this)
