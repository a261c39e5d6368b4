"""The golden files on the site: each by itself, and all of them in one archive."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Final

from ckptspec.conformance.export import export

from .case_pages import ARCHIVE, VECTORS
from .clauses import cases

__all__ = ["publish_vectors", "write_archive"]

_TIME: Final = (1980, 1, 1, 0, 0, 0)  # the first that the format knows: the same files give the same archive


def publish_vectors(site: Path) -> None:
    """Write what ``ckptspec vectors export`` writes below the site, and the archive of it."""
    folder = site / VECTORS
    export(cases(), folder)
    write_archive(folder, folder / ARCHIVE)


def write_archive(folder: Path, target: Path) -> None:
    """Write a ZIP archive of the files below a folder: sorted, without dates, the same bytes every time."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file != target)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for file in files:
            entry = zipfile.ZipInfo(f"{target.stem}/{file.relative_to(folder).as_posix()}", _TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, file.read_bytes())
