"""Store of archives: a folder, or a URL that pyarrow supports, such as ``s3://bucket/folder``."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

from mlbench.archive import ADDED_SUFFIX, ANNOTATIONS_SUFFIX, SUFFIX, Archive, ArchiveError


class ArchiveStore:
    """A folder of archives. Threads may share it; all calls raise ``ArchiveError``."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._is_remote = "://" in url

    def put(self, name: str, write: Callable[[Path], str]) -> str:
        """Have an archive written, put it into its place in one step, and return its digest."""
        with self._errors():
            if self._is_remote:
                from pyarrow.fs import LocalFileSystem, copy_files  # noqa: PLC0415

                files, root = self._place
                with TemporaryDirectory() as folder:
                    digest = write(Path(folder, name))
                    copy_files(f"{folder}/{name}", f"{root}/{name}", LocalFileSystem(), files)
                return digest
            Path(self._url).mkdir(mode=0o700, parents=True, exist_ok=True)
            # A draft of a killed process stays until the archive is written again.
            draft = Path(self._url, f".{name}")
            try:
                digest = write(draft)
                draft.replace(Path(self._url, name))
            finally:
                draft.unlink(missing_ok=True)
            return digest

    @contextmanager
    def open(self, name: str) -> Iterator[Archive]:
        """Open an archive for reading."""
        file, _ = self.read(name)
        with file:
            yield Archive(file, name)

    def read(self, name: str) -> tuple[BinaryIO, int]:
        """Open an archive as a file, which the caller closes, and return its size."""
        files, root = self._place
        with self._errors():
            file = files.open_input_file(f"{root}/{name}")
            return file, file.size()

    def size(self, name: str) -> int:
        """Return the bytes of an archive; 0 if it does not exist."""
        files, root = self._place
        with self._errors():
            return files.get_file_info(f"{root}/{name}").size or 0

    def measure(self) -> tuple[int, int, bool]:
        """Return the number of archives, their bytes, and whether they are in an object store."""
        from pyarrow.fs import FileSelector  # noqa: PLC0415

        files, root = self._place
        with self._errors():
            infos = files.get_file_info(FileSelector(root, allow_not_found=True))
        sizes = {info.base_name: info.size for info in infos if info.base_name.endswith(SUFFIX)}
        archives = sum(not name.endswith(ADDED_SUFFIX) for name in sizes)
        return archives, sum(sizes.values()), self._is_remote

    def delete(self, run_id: int) -> None:
        """Delete the archives of a run, if there are any."""
        from pyarrow.fs import FileSelector  # noqa: PLC0415

        files, root = self._place
        with self._errors():
            for entry in files.get_file_info(FileSelector(root, allow_not_found=True)):
                name = entry.base_name.removesuffix(ANNOTATIONS_SUFFIX)
                if name.endswith((f"-{run_id}{SUFFIX}", f"-{run_id}{ADDED_SUFFIX}")):
                    files.delete_file(entry.path)

    @cached_property
    def _place(self) -> tuple[Any, str]:
        # Import late: most processes of the API never read an archive.
        from pyarrow.fs import FileSystem, LocalFileSystem  # noqa: PLC0415

        if not self._is_remote:
            return LocalFileSystem(), self._url
        with self._errors():
            files, root = FileSystem.from_uri(self._url)
        return files, root.rstrip("/")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:
            raise ArchiveError(f"the archives in {self._url}: {error}") from error
