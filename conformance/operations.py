"""What the package does to files, as one list: the smoke suite runs it, tests compare what it gives elsewhere.

``run`` works in an empty folder of its own. It makes the inputs, always the same ones, gives every verb of the command
line some of them, and returns for each operation what came out: exit status, what was printed, and the files that were
written or changed. None of it may depend on the place, the time, the locale, the processor or the version of Python.

``python -m ckptspec.conformance.operations`` prints a digest for each operation as JSON, so that two machines can be
compared; ``--keep DIR`` keeps what was written, to see where they differ.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import locale
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from .. import decode, kaun, nuvec, oam, ocannl, safetensors, save
from ..cli import EXPORTS
from ..cli import main as command
from ..formats import FORMATS
from ..neutral import dump_json
from ..quantization import quantize_array
from ..spec.dtypes import OAM_DTYPES, OCANNL_PRECISIONS, SAFETENSORS_DTYPES, numpy_type
from ..spec.schema import OAM_VERSIONS
from .json_schemas import description_schema, document_schema, manifest_schema

__all__ = ["COMMANDS", "Outcome", "call", "expected_status", "run", "verb_of"]

Array = np.ndarray[Any, np.dtype[Any]]

# Names that a locale, an encoding or a page could spoil; what prints for people gets plain ones.
_NAMES: Final = (
    "Ä",
    "İ",
    "ı",
    "ß",
    "名前",
    "\N{RIGHT-TO-LEFT OVERRIDE}x",
    "<b>&",
    "=1+1",
    "../x",
    "a\x1b[31m",
    "\U0001f600",
)
_EXTENSIONS: Final = {"oam": ".oam", "ocannl": ".ckpt", "safetensors": ".safetensors"}
_LARGE: Final = 2_400_000  # elements of binary32: more than one thread begins with, and several pieces of a digest
_DAMAGED: Final = 8000  # a byte within the first payload of plain.oam


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What an operation gave. ``files`` are those that it wrote or changed, by their paths below the folder."""

    status: int = 0
    printed: bytes = b""
    complaints: bytes = b""
    files: dict[str, bytes] = field(default_factory=dict)

    def digest(self) -> str:
        """Return a digest of all of it."""
        made = hashlib.sha256(f"{self.status} {len(self.printed)} {len(self.complaints)}\n".encode())
        made.update(self.printed + self.complaints)
        for name, content in sorted(self.files.items()):
            made.update(f"\n{name} {len(content)}\n".encode() + content)
        return made.hexdigest()


# --------------------------------------------------------------------------------------------------------------- inputs


def _raw(key: str, size: int) -> bytes:
    return hashlib.shake_256(key.encode()).digest(size)


def _array(key: str, dtype: np.dtype[Any], *shape: int) -> Array:
    """Return an array of any bits in the processor's byte order; what is to be true or false has only these."""
    count = int(np.prod(shape))
    raw = _raw(key, count * dtype.itemsize)
    made: Array = np.frombuffer(raw, "u1" if dtype.kind == "b" else dtype)
    made = made % 2 == 1 if dtype.kind == "b" else made.astype(dtype.newbyteorder("="))
    return made.reshape(shape)


def _floats(key: str, *shape: int) -> Array:
    """Return plain finite numbers: multiples of 1/1024 between -32 and 32."""
    return (_array(key, np.dtype("<i2"), *shape) / np.float32(1024)).astype(np.float32)


def _model(prefix: str = "", **more: Any) -> oam.Model:
    """Return a model with tensors of all dtypes and encodings, and of odd shapes."""
    weights: dict[str, Any] = {
        f"{prefix}{name}": _array(name, numpy_type(scalar), 3, 4) for name, scalar in OAM_DTYPES.items()
    }
    weights |= {
        f"{prefix}scalar": np.float32(1.5),
        f"{prefix}empty": np.zeros((0, 2), np.float64),
        f"{prefix}rows": _floats("rows", 6, 40).T,
        **{f"{prefix}{encoding}": quantize_array(_floats(encoding, 2, 48), encoding) for encoding in ("q4", "q8")},
    }
    return oam.Model(
        config=oam.Config(architecture=f"{prefix[:4]}demo", d_model=8, arch_config=b'{"a": 1}'),
        weights=weights,
        state={f"{prefix}cache": _floats("cache", 5)},
        optimizer=oam.Optimizer(step=12, first_moment=_floats("m", 12), second_moment=abs(_floats("v", 12))),
        progress=oam.Progress(step=12, learning_rate=1e-3, metric_name=f"{prefix[:4]}loss"),
        **more,
    )


def _checkpoint(label: str) -> tuple[ocannl.Context, list[ocannl.TensorNode]]:
    """Return nodes of all precisions with their values."""
    registry = ocannl.Registry()
    values: dict[ocannl.TensorNode, Array] = {}
    for name, scalar in OCANNL_PRECISIONS.items():
        if scalar.size and scalar.lanes == 1:
            node = registry.create((2, 3), precision=name, label=[f"{label}{name}"])
            values[node] = _array(name, numpy_type(scalar), 2, 3)
    return ocannl.Context(values, registry=registry), list(values)


def _tensors(prefix: str = "") -> dict[str, Array]:
    chosen = {name: scalar for name, scalar in SAFETENSORS_DTYPES.items() if scalar.bits % 8 == 0}
    return {f"{prefix}{name}": _array(name, numpy_type(scalar), 2, 5) for name, scalar in chosen.items()}


def _plain_floats() -> dict[str, Array]:
    return {"layer.w": _floats("w", 4, 32), "layer.b": _floats("b", 32), "step": np.array(12, np.int64)}


def _make_inputs() -> None:
    """Write all files that the commands get, by the interface for Python."""
    for prefix, name in (("", "plain"), ("".join(_NAMES), "odd")):
        save(f"{name}.oam", _model(prefix))
        ctx, nodes = _checkpoint(prefix)
        ocannl.save(ctx, nodes, f"{name}.ckpt")
        safetensors.save(
            f"{name}.safetensors", _tensors(prefix), {"k": "v", **({text: text for text in _NAMES if prefix})}
        )
    for version in OAM_VERSIONS[:-1]:
        dense = {"w": _floats("w", 4, 32)}
        oam.save(f"old{version}.oam", oam.Model(weights=dense), version=version)
    floats = _plain_floats()
    save("floats.oam", oam.Model(weights=floats))
    safetensors.save("floats.safetensors", floats)
    nudged = floats | {"layer.w": np.nextafter(floats["layer.w"], np.float32(np.inf)), "layer.b": floats["layer.b"] * 2}
    save("nudged.oam", oam.Model(weights=nudged))
    kaun.save("kaun.safetensors", kaun.Checkpoint(floats))
    nuvec.save("nuvec.safetensors", {"net": [floats["layer.w"], {"b": floats["layer.b"]}], "rate": np.float32(0.1)})
    large = _floats("large", _LARGE)
    save("large.oam", oam.Model(weights={"large": large}))
    save("large2.oam", oam.Model(weights={"large": large[::-1]}))
    damaged = bytearray(Path("plain.oam").read_bytes())
    damaged[_DAMAGED] ^= 0x40
    Path("damaged.oam").write_bytes(damaged)
    for name in FORMATS:
        document = decode(f"odd{_EXTENSIONS[name]}")
        Path(f"{name}.json").write_text(dump_json(document), "ascii")
    Path("short.safetensors").write_bytes(Path("plain.safetensors").read_bytes()[:-7])
    Path("short.ckpt").write_bytes(Path("plain.ckpt").read_bytes()[:-7])
    shutil.copyfile("floats.safetensors", "edited.safetensors")


# ------------------------------------------------------------------------------------------------------------- commands


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.strip().splitlines() if line.strip())


# Each line is a command, after the exit status that it must have.
COMMANDS: Final = _lines("""
    0 validate plain.oam plain.ckpt plain.safetensors old1.oam old2.oam large.oam kaun.safetensors nuvec.safetensors
    0 validate --json odd.oam odd.ckpt odd.safetensors
    1 validate --json --strict damaged.oam short.ckpt short.safetensors
    1 validate damaged.oam
    0 inspect plain.oam
    0 inspect plain.ckpt
    0 inspect plain.safetensors
    0 inspect --hex plain.oam
    0 inspect --json odd.oam
    0 inspect --json odd.ckpt
    0 inspect --json odd.safetensors
    0 inspect --html odd-oam.html odd.oam
    0 inspect --html odd-ckpt.html odd.ckpt
    0 inspect --html odd-safetensors.html odd.safetensors
    0 inspect --html large.html large.oam
    1 inspect --html damaged.html --no-values damaged.oam
    0 explain
    0 explain --json
    0 explain OAM-SEC-OVERLAP
    0 decode odd.oam
    0 decode odd.ckpt
    0 decode odd.safetensors
    1 decode damaged.oam
    0 encode oam.json again.oam
    0 encode ocannl.json again.ckpt
    0 encode safetensors.json again.safetensors
    0 salvage damaged.oam saved.oam
    0 salvage --json short.ckpt saved.ckpt
    0 salvage --json short.safetensors saved.safetensors
    0 canonicalize old1.oam canonical.oam
    0 canonicalize odd.ckpt canonical.ckpt
    0 canonicalize --json odd.safetensors canonical.safetensors
    0 quantize floats.oam floats-q4.oam q4
    0 metadata edited.safetensors --set run=7 --set note=long --reserve 64
    0 metadata edited.safetensors --json
    0 convert floats.oam floats.ckpt --lossy
    0 convert floats.oam floats-from.safetensors --json
    0 convert floats.safetensors floats-from.oam --lossy
    0 quantize --json floats-from.oam floats-q8.oam q8
    0 convert odd.oam odd-from-oam.safetensors --lossy --json
    0 convert odd.ckpt odd-from-ckpt.safetensors --lossy --json
    0 convert odd.safetensors odd-from-safetensors.oam --lossy --json --dry-run
    1 diff floats.oam nudged.oam
    1 diff floats.oam nudged.oam --json
    1 diff large.oam large2.oam --json
    1 diff plain.oam odd.oam --json
    0 diff floats.oam floats.safetensors --no-facts --json
    0 digest plain.oam
    0 digest odd.oam --json
    0 digest odd.ckpt --json
    0 digest odd.safetensors --json
    0 digest large.oam --manifest large.json
    1 digest large2.oam --check large.json
    0 vectors list --json
    0 vectors export vectors --rule OAM-HDR-MAGIC
    0 conform --jobs 2 --format safetensors --filter */golden_* --json run.json --junit run.xml --html run.html
    0 matrix run.json --json matrix.json --html matrix.html
    1 audit plain.oam odd.ckpt old1.oam damaged.oam short.ckpt --jobs 1 --db audit.sqlite
    1 audit report --db audit.sqlite
    1 audit report --db audit.sqlite --format jsonl
    1 audit report --db audit.sqlite --format csv
    1 audit report --db audit.sqlite --format html --output audit.html
""")


def _exports() -> Iterator[str]:
    for kind, _, _ in EXPORTS:
        yield f"0 export {kind}"
        yield from (f"0 export {kind} --format {name}" for name in FORMATS)


# -------------------------------------------------------------------------------------------------------------- running


def run(*, progress: Callable[[str], None] = lambda _: None) -> Iterator[tuple[str, Outcome]]:
    """Do everything in the current folder, which has to be empty; yield each operation with what it gave.

    ``progress`` is called with the name of each operation before it begins. What an operation raises goes through.
    """
    before: dict[str, bytes] = {}
    progress("save")
    _make_inputs()
    yield "save", Outcome(files=_changed(before))
    for name, made in _schemas().items():
        yield f"schema {name}", Outcome(printed=json.dumps(made, indent=1).encode())
    for line in (*COMMANDS, *_exports()):
        _, words = line.split(" ", 1)
        progress(words)
        status, printed, complaints = call(words.split())
        if verb_of(words).startswith("audit"):
            printed = _anywhere(printed)
        yield words, Outcome(status=status, printed=printed, complaints=complaints, files=_changed(before))


def expected_status(operation: str) -> int:
    """Return the exit status that an operation must have."""
    for line in COMMANDS:
        status, words = line.split(" ", 1)
        if words == operation:
            return int(status)
    return 0


def verb_of(operation: str) -> str:
    """Return the verb of an operation; one has two words."""
    words = operation.split()
    return " ".join(words[:2]) if words[:2] == ["audit", "report"] else words[0]


def call(words: Sequence[str]) -> tuple[int, bytes, bytes]:
    """Run the command line in this process; return exit status and what it printed, in the encoding of this process."""
    streams = [io.TextIOWrapper(io.BytesIO(), stream.encoding, stream.errors) for stream in (sys.stdout, sys.stderr)]
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        status = command(words)
    for stream in streams:
        stream.flush()
    printed, complaints = (stream.buffer.getvalue() for stream in streams)
    return status, printed, complaints


def _schemas() -> dict[str, Any]:
    return {"manifest": manifest_schema(), "document": document_schema(), "description": description_schema()}


def _changed(before: dict[str, bytes]) -> dict[str, bytes]:
    """Return the files below the current folder that are not as before, and remember them by their digests."""
    made = {}
    for path in sorted(path for path in Path().rglob("*") if path.is_file()):
        if ".sqlite" in path.name:  # it keeps times and numbers of the file system; reports tell what is in it
            continue
        content = _plain(path, path.read_bytes())
        digest = hashlib.sha256(content).digest()
        if before.get(str(path)) != digest:
            before[str(path)] = digest
            made[path.as_posix()] = content
    return made


def _plain(path: Path, content: bytes) -> bytes:
    """Return what a file says apart from times and the place that it was made at."""
    if path.suffix == ".xml":
        return re.sub(rb' time(stamp)?="[^"]*"', b"", content)
    return _anywhere(content) if path.name == "audit.html" else content


def _anywhere(text: bytes) -> bytes:
    """Return the words of an audit, which names whole paths and times, without place and time."""
    plain = text.replace(os.fsencode(os.getcwd()), b"HERE")
    return re.sub(rb"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|\+00:00)?", b"THEN", plain)


def main(argv: Sequence[str] | None = None) -> int:
    """Print a digest of what each operation gives."""
    parser = argparse.ArgumentParser(description="Print a digest of what each operation of the package gives.")
    parser.add_argument("--keep", metavar="DIR", help="work in this folder, which has to be empty, and leave it")
    options = parser.parse_args(argv)
    with contextlib.suppress(locale.Error):  # as a program does that obeys its user; a locale may be missing
        locale.setlocale(locale.LC_ALL, "")
    with tempfile.TemporaryDirectory(prefix="ckptspec-") as folder:
        place = folder if options.keep is None else options.keep
        os.makedirs(place, exist_ok=True)
        with contextlib.chdir(place):
            made = {name: outcome.digest() for name, outcome in run()}
    print(json.dumps(made, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
