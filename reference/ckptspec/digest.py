"""A digest of what is in a file, however it is stored; ``docs/digest.md`` defines it for other implementations.

A tensor's digest covers dtype, encoding, shape and payload; the digest ``tensors`` covers all names and their digests,
``content`` the facts too. Format and version, order, padding, alignment and gaps enter nothing. Payloads are hashed in
pieces, several at a time, and the hashes of the pieces are hashed: one tensor can keep several processors busy.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from blake3 import blake3

from . import neutral
from .contents import Contents, Entry, sorted_by_bytes
from .errors import ArgumentError
from .parallel import batches, in_order
from .progress import advance
from .source import Source
from .spec.dtypes import SCALARS
from .spec.schema import OAM_ENCODINGS
from .text import show

__all__ = ["Changes", "Digest", "TensorDigest", "digest", "manifest_of", "parse_manifest"]

PIECE: Final = 1 << 20  # bytes of a payload that are hashed by themselves: part of the definition
_STRIDE: Final = 1 << 18  # bytes that are read at a time, so that they are still in the cache when they are hashed
_SMALL: Final = 1 << 22  # bytes below which threads do not pay
_DIGEST: Final = 32

_MANIFEST: Final = "ckptspec-manifest"
_VERSION: Final = 1
_DTYPES: Final = tuple(scalar.name for scalar in SCALARS)


@dataclass(frozen=True, slots=True)
class TensorDigest:
    """A tensor's digest, in lower-case hex, and what it is."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    encoding: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """The digests of a file, in lower-case hex: of each tensor, in the order of the names' bytes, and of all."""

    tensors: tuple[TensorDigest, ...]
    facts: Mapping[str, str]
    tensors_digest: str
    content_digest: str


def digest(contents: Contents) -> Digest:
    """Return the digests of a file; its payload is read once, in constant memory. OSError if it cannot be read."""
    made = dict(_tensors(contents))
    return _whole([made[name] for name in sorted_by_bytes(made)], contents.facts)


def _tensors(contents: Contents) -> Iterator[tuple[str, TensorDigest]]:
    """Yield the digest of each tensor, in the order of the payloads."""
    entries = contents.by_place()
    work = _Work(contents.source)
    jobs = batches(_pieces(entries), lambda job: job[1])
    with closing(in_order(work.leaves, jobs, threads=1 if contents.payload < _SMALL else None)) as results:
        leaves = chain.from_iterable(results)
        for entry in entries:
            hasher = blake3(_head(entry))
            for start in range(0, entry.size, PIECE):
                hasher.update(next(leaves))
                advance(min(PIECE, entry.size - start))
            yield entry.name, TensorDigest(entry.name, *entry.form, hasher.hexdigest())


def _pieces(entries: Iterable[Entry]) -> Iterator[tuple[int, int]]:
    """Yield offset and size of each piece of each tensor."""
    for entry in entries:
        for start in range(0, entry.size, PIECE):
            yield entry.offset + start, min(PIECE, entry.size - start)


class _Work:
    """Hashes pieces of a source, on any number of threads with a buffer each."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.local = threading.local()

    def leaves(self, pieces: list[tuple[int, int]]) -> list[bytes]:
        return [self._leaf(offset, size) for offset, size in pieces]

    def _leaf(self, offset: int, size: int) -> bytes:
        source = self.source
        if source.in_memory:
            return blake3(source.read(offset, size)).digest()
        buffer = getattr(self.local, "buffer", None)
        if buffer is None:
            buffer = self.local.buffer = memoryview(bytearray(_STRIDE))
        hasher = blake3()
        for start in range(0, size, _STRIDE):
            part = buffer[: size - start]
            source.readinto(offset + start, part)
            hasher.update(part)
        return hasher.digest()


def _head(entry: Entry) -> bytes:
    dtype, shape, encoding = entry.form
    extents = "".join(f" {extent}" for extent in shape)
    return f"ckptspec tensor 1\n{dtype} {encoding} {entry.size} {len(shape)}{extents}\n".encode()


def _whole(tensors: Iterable[TensorDigest], facts: Mapping[str, str]) -> Digest:
    """Return the digests of a file from those of its tensors, which are in the order of their names."""
    made = tuple(tensors)
    outer = blake3(b"ckptspec tensors 1\n")
    for item in made:
        name = item.name.encode()
        outer.update(b"%s %d %s\n" % (item.digest.encode(), len(name), name))
    content = blake3(b"ckptspec content 1\n%s\n" % outer.hexdigest().encode())
    for key in sorted_by_bytes(facts):
        name, value = key.encode(), facts[key].encode()
        content.update(b"%d %d %s %s\n" % (len(name), len(value), name, value))
    return Digest(tensors=made, facts=facts, tensors_digest=outer.hexdigest(), content_digest=content.hexdigest())


# ------------------------------------------------------------------------------------------------------------ manifests


def manifest_of(made: Digest) -> dict[str, Any]:
    """Return the manifest of a file as JSON types. The same content gives the same manifest, whatever the file."""
    return {
        "format": _MANIFEST,
        "version": _VERSION,
        "tensors_digest": made.tensors_digest,
        "content_digest": made.content_digest,
        "tensors": {
            item.name: {
                "dtype": item.dtype,
                "shape": [str(extent) for extent in item.shape],
                "encoding": item.encoding,
                "digest": item.digest,
            }
            for item in made.tensors
        },
        "facts": {key: made.facts[key] for key in sorted_by_bytes(made.facts)},
    }


def parse_manifest(data: bytes | memoryview) -> Digest:
    """Return the digests that a manifest holds. Raises ArgumentError if it is none, or contradicts itself."""
    document = neutral.parse_json(data)
    keys = ("format", "version", "tensors_digest", "content_digest", "tensors", "facts")
    top = neutral.keys(document, "manifest", keys)
    if top["format"] != _MANIFEST:
        raise ArgumentError(f"found {show(top['format'])}, expected '{_MANIFEST}'", "format")
    neutral.number(top["version"], "version", (_VERSION, _VERSION))
    tensors, facts = _object(top["tensors"], "tensors"), _object(top["facts"], "facts")
    made = _whole(
        [_read_tensor(name, tensors[name]) for name in sorted_by_bytes(tensors)],
        {key: neutral.text(value, f"facts[{show(key)}]") for key, value in facts.items()},
    )
    for key, computed in (("tensors_digest", made.tensors_digest), ("content_digest", made.content_digest)):
        if _hex(top[key], key) != computed:
            raise ArgumentError(f"found {top[key]}, expected {computed}, which follows from the rest", key)
    return made


def _object(value: Any, path: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ArgumentError(f"found {show(value)}, expected an object", path)
    for key in value:
        neutral.text(key, path)
    return value


def _hex(value: Any, path: str) -> str:
    if len(neutral.blob(value, path)) != _DIGEST:
        raise ArgumentError(f"found {show(value)}, expected the {_DIGEST} bytes of a digest in hex", path)
    return str(value)


def _one_of(value: Any, path: str, known: Collection[str]) -> str:
    name = neutral.text(value, path)
    if name not in known:
        raise ArgumentError(f"found {show(name)}, expected one of {', '.join(known)}", path)
    return name


def _read_tensor(name: str, value: Any) -> TensorDigest:
    path = f"tensors[{show(name)}]"
    given = neutral.keys(value, path, ("dtype", "shape", "encoding", "digest"))
    shape = neutral.items(given["shape"], f"{path}.shape")
    return TensorDigest(
        name,
        _one_of(given["dtype"], f"{path}.dtype", _DTYPES),
        tuple(
            neutral.decimal(extent, f"{path}.shape[{axis}]", (0, (1 << 64) - 1)) for axis, extent in enumerate(shape)
        ),
        _one_of(given["encoding"], f"{path}.encoding", OAM_ENCODINGS),
        _hex(given["digest"], f"{path}.digest"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What is not as a manifest says, by name: in the file but not in the manifest, the reverse, and otherwise."""

    new: tuple[str, ...]
    missing: tuple[str, ...]
    changed: tuple[str, ...]
    facts: tuple[str, ...]

    @classmethod
    def between(cls, expected: Digest, found: Digest) -> Changes:
        """Compare a manifest with a file."""
        old = {item.name: item for item in expected.tensors}
        new = {item.name: item for item in found.tensors}
        facts = expected.facts.keys() | found.facts.keys()
        return cls(
            new=tuple(name for name in new if name not in old),
            missing=tuple(name for name in old if name not in new),
            changed=tuple(name for name in old if name in new and old[name] != new[name]),
            facts=tuple(sorted_by_bytes(key for key in facts if expected.facts.get(key) != found.facts.get(key))),
        )
