"""Pack the agent into one file that any image with Python 3.11 can run.

``python -m mlbench_worker.agent.code_bundle OUT`` writes the file, ``python3 OUT …`` runs it, and
``python3 OUT record -- COMMAND`` records a command. The file contains the agent, the modules of
mlbench that it needs, the extensions that register with the agent, and prometheus-client, all pure
Python. It is reproducible.
"""

import sys
from importlib import import_module
from importlib.metadata import distribution
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import prometheus_client

import mlbench
import mlbench_worker
from mlbench.contract.distribution import DISTRIBUTION
from mlbench.contract.extensions import Group, registered

# Every Python since 2.6 can parse this, to print the message. The imported modules need 3.11.
_MAIN = """\
import sys

if sys.version_info < (3, 11):
    sys.exit("MLBench's agent needs Python 3.11 or newer as python3; this image has %d.%d"
             % sys.version_info[:2])

if sys.argv[1:2] == ["record"]:
    from mlbench.tracking.record_command import main
    main(sys.argv[2:])
else:
    from mlbench_worker.agent.__main__ import main
    main()
"""

_OF_MLBENCH = ("mlbench/contract/**/*.py", "mlbench/tracking/*.py", "mlbench/local/*.py")

# The groups of entry points that the agent loads.
_GROUPS: tuple[Group, ...] = ("mlbench.evidence", "mlbench.injectors", "mlbench.sources")


def write_bundle(path: Path) -> None:
    """Write the agent as one zip file with a ``__main__``."""
    entries = [entry for group in _GROUPS for entry in registered(group).values()]
    distributions = {DISTRIBUTION: distribution(DISTRIBUTION)}
    distributions |= {entry.dist.name: entry.dist for entry in entries if entry.dist}
    contents = {"__main__.py": _MAIN}
    for name, installed in distributions.items():
        about = f"{name.replace('-', '_')}-{installed.version}.dist-info"
        # importlib.metadata reads the version and the entry points from these files.
        for file_name in ("METADATA", "entry_points.txt"):
            contents[f"{about}/{file_name}"] = installed.read_text(file_name) or ""
    extensions = {entry.module.partition(".")[0] for entry in entries}
    for package, patterns in (
        (mlbench, ["mlbench/*.py", *_OF_MLBENCH]),
        (mlbench_worker, ["mlbench_worker/*.py", "mlbench_worker/agent/**/*.py"]),
        (prometheus_client, ["prometheus_client/**/*.py"]),
        *((import_module(name), [f"{name}/**/*.py"]) for name in sorted(extensions)),
    ):
        folder = Path(str(package.__file__)).parent.parent
        for pattern in patterns:
            for file in folder.glob(pattern):
                if "tests" not in file.parts[len(folder.parts) :]:
                    contents[str(file.relative_to(folder))] = file.read_text()
    with ZipFile(path, "w", ZIP_DEFLATED) as bundle:
        for name, content in sorted(contents.items()):
            # ZipInfo sets the oldest possible time for all files: the bundle is reproducible.
            bundle.writestr(ZipInfo(name), content, ZIP_DEFLATED)


if __name__ == "__main__":
    write_bundle(Path(sys.argv[1]))
