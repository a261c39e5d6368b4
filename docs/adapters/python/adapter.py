# adapter.py: makes my_reader a decoder for `ckptspec conform`: prints a file's neutral document.
import json
import os
import sys
import traceback
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import my_reader

ACCEPTED, REJECTED, TROUBLE, BUG = 0, 1, 2, 3  # exit status; the last two say nothing about the file

WIDE = ("shape", "step", "bytes_seen", "env_steps")  # 64-bit integers are strings: many a JSON parser rounds numbers


def neutral(value: Any, wide: bool = False) -> Any:
    """Return a part of a model as the neutral document has it. The names of the fields happen to be the same."""
    if isinstance(value, my_reader.Float32):
        return f"0x{value.bits:08x}"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list | tuple):
        return [neutral(item, wide) for item in value]
    if is_dataclass(value):
        return {field.name: neutral(getattr(value, field.name), field.name in WIDE) for field in fields(value)}
    return str(value) if wide else value


def answer(data: bytes) -> dict[str, Any]:
    """Return ``{"document": ...}``, or ``{"error": ...}`` if the reader refuses the file."""
    try:
        return {"document": {"format": "oam", **neutral(my_reader.read(data))}}
    except my_reader.ReadError as error:
        return {"error": {"message": error.message, "offset": error.offset}}


def decode_one(data: bytes) -> int:
    """Print the document, or the error."""
    result = answer(data)
    print(json.dumps(result.get("document", result)))
    return ACCEPTED if "document" in result else REJECTED


def decode_batch() -> int:
    """Answer each path on standard input with one line, at once: the next path comes only then."""
    for line in sys.stdin.buffer:
        path = os.fsdecode(line.removesuffix(b"\n"))
        print(json.dumps({"path": path, **answer(Path(path).read_bytes())}), flush=True)
    return ACCEPTED


def main(arguments: list[str]) -> int:
    """Decode the file named, standard input, or with ``--batch`` many files."""
    try:
        if arguments == ["--batch"]:
            return decode_batch()
        return decode_one(Path(arguments[0]).read_bytes() if arguments else sys.stdin.buffer.read())
    except OSError as error:
        print(error, file=sys.stderr)
        return TROUBLE
    except Exception:  # left alone, Python would exit with 1, and a bug would look like a rejection
        traceback.print_exc()
        return BUG


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
