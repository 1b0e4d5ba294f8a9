"""Several archives in one file, such as those of a set: a zip file that holds them as they are."""

import json
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from mlbench.archive import SUFFIX, ArchiveError

_SET = "set.json"


def write(target: BinaryIO, archives: Sequence[Path], about: Mapping[str, Any]) -> None:
    """Write a file that holds these archives, and what the set is that they are of."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as bundle:
        bundle.writestr(_SET, json.dumps(about))
        for file in archives:
            bundle.write(file, file.name)


def about(file: Path) -> Any:
    """Return what is said of a file's set; None for an archive.

    Raises:
        ArchiveError: it is not JSON.
    """
    with zipfile.ZipFile(file) as bundle:
        try:
            return json.loads(bundle.read(_SET)) if _SET in bundle.namelist() else None
        except (ValueError, zipfile.BadZipFile) as error:
            raise ArchiveError(f"{file}: {_SET}: {error}") from None


def archives_in(file: Path, folder: Path) -> list[Path]:
    """Return the archives that a file holds, copied into a folder; or the file, if it is one.

    Raises:
        ArchiveError: it cannot be read.
    """
    found = []
    try:
        with zipfile.ZipFile(file) as bundle:
            members = [one for one in bundle.infolist() if one.filename.endswith(SUFFIX)]
            for i, member in enumerate(members):
                # Compressed, it could grow to any size.
                if member.compress_type != zipfile.ZIP_STORED:
                    raise ArchiveError(f"{file}: {member.filename} is compressed")
                found.append(folder / f"{file.stem}-{i}{SUFFIX}")
                with bundle.open(member) as source, found[-1].open("wb") as target:
                    shutil.copyfileobj(source, target)
    except OSError as error:
        raise ArchiveError(f"{file} cannot be read: {error.strerror or error}") from None
    except zipfile.BadZipFile as error:
        raise ArchiveError(f"{file} is no archive, or a damaged one: {error}") from None
    return found or [file]
