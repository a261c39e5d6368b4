"""Files of no known format: every decoder of every format must refuse them."""

from __future__ import annotations

import io
import zipfile

from .definition import CaseBook, Definition

__all__ = ["book"]


def _zip() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(zipfile.ZipInfo("archive/data.pkl"), b"\x80\x02}q\0.")
    return made.getvalue()


_FILES = {
    "empty": ("an empty file", b""),
    "newline": ("one line end", b"\n"),
    "lfs_pointer": (
        "a Git LFS pointer",
        b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4d" * 32 + b"\nsize 12888\n",
    ),
    "html": ("an HTML page", b"<!DOCTYPE html>\n<html><head><title>404 Not Found</title></head></html>\n"),
    "json": ("JSON", b'{"error": "not found"}\n'),
    "text": ("text", b"This is not a checkpoint.\n" * 4),
    "zip": ("a ZIP archive, as PyTorch writes it", _zip()),
    "pickle": ("a pickle", b"\x80\x02}q\x00X\x01\x00\x00\x00wq\x01K\x01s."),
    "gzip": ("gzip-compressed data", bytes.fromhex("1f8b0800000000000203f377f465f01f400c003bb9fac680000000")),
    "png": ("the start of a PNG image", b"\x89PNG\r\n\x1a\n" + bytes(100)),
    "zeros": ("a page of zeros", bytes(4096)),
    "ones": ("a page of 0xff", b"\xff" * 4096),
    "npy": (
        "a numpy array",
        b"\x93NUMPY\x01\0v\0{'descr': '<f4', 'fortran_order': False, 'shape': (0,), }".ljust(128),
    ),
}


def book() -> CaseBook:
    """Return all definitions."""
    made = CaseBook("any", ".bin")
    for name, (title, data) in _FILES.items():
        made.add(
            Definition(
                name=f"file_{name}",
                title=title,
                make=lambda data=data: data,  # type: ignore[misc]
                verdict="invalid",
                rules=("ANY-FILE-FORMAT",),
                tags=("foreign",),
            )
        )
    return made
