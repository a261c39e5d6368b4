# encoder.py: makes my_writer an encoder for `ckptspec conform`: writes the file that a neutral document describes.
import json
import re
import sys
import traceback
from dataclasses import is_dataclass
from pathlib import Path
from types import NoneType
from typing import Any, NoReturn, get_args, get_origin, get_type_hints

import my_reader
import my_writer

WRITTEN, REFUSED, TROUBLE, BUG = 0, 1, 2, 3  # exit status; the last two say nothing about the document

WIDE = ("shape", "step", "bytes_seen", "env_steps")  # 64-bit integers are strings: many a JSON parser rounds numbers


class DocumentError(Exception):
    """The document is not exactly as the suite spells one."""


def refuse_constant(name: str) -> NoReturn:
    """Refuse NaN and the infinities, which Python's parser takes."""
    raise DocumentError(f"{name} is not JSON")


def each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; left alone, Python's parser takes the last of two values."""
    made = dict(pairs)
    if len(made) < len(pairs):
        raise DocumentError("a key stands twice")
    return made


def parse(data: bytes) -> Any:
    """Parse strict JSON: UTF-8 without a byte order mark, as ``str`` makes sure; ``loads`` would guess from bytes."""
    try:
        return json.loads(str(data, "utf-8"), object_pairs_hook=each_key_once, parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:  # no UTF-8, no JSON, too many digits, too many brackets
        raise DocumentError(f"not a JSON document: {error}") from None


def text(value: Any, pattern: str, path: str) -> str:
    """Return ``value`` if it is a string of that pattern, and spelled in the one way that is allowed."""
    if not isinstance(value, str) or not re.fullmatch(pattern, value, re.ASCII | re.DOTALL):
        raise DocumentError(f"{path}: expected a string of the pattern {pattern}")
    return value


def model_part(kind: Any, value: Any, path: str, wide: bool = False) -> Any:
    """Return a part of the document as the type that the model wants. The names of the fields happen to be the same."""
    if kind is my_reader.Float32:
        return my_reader.Float32(int(text(value, "0x[0-9a-f]{8}", path), 16))
    if kind is bytes:
        return bytes.fromhex(text(value, "([0-9a-f]{2})*", path))
    if kind is str:
        return text(value, ".*", path)
    if kind is int and wide:
        return int(text(value, "0|-?[1-9][0-9]{0,19}", path))
    if kind in (int, bool) and type(value) is kind:  # to isinstance, true and false are integers
        return value
    if get_origin(kind) in (list, tuple) and isinstance(value, list):
        item = get_args(kind)[0]
        return get_origin(kind)(model_part(item, part, f"{path}[{at}]", wide) for at, part in enumerate(value))
    if NoneType in get_args(kind):
        return None if value is None else model_part(get_args(kind)[0], value, path)
    if is_dataclass(kind) and isinstance(value, dict):
        fields = get_type_hints(kind)
        if value.keys() != fields.keys():
            raise DocumentError(f"{path}: missing or unknown keys: {sorted(value.keys() ^ fields.keys())}")
        return kind(**{name: model_part(fields[name], value[name], f"{path}.{name}", name in WIDE) for name in fields})
    raise DocumentError(f"{path}: expected another type of value")


def encode(data: bytes) -> bytes:
    """Return the file."""
    document = parse(data)
    if not isinstance(document, dict) or document.pop("format", None) != "oam":
        raise DocumentError("not a document of the format oam")
    return my_writer.write(model_part(my_reader.Model, document, "document"))


def main(arguments: list[str]) -> int:
    """Encode the document on standard input, to the file named or to standard output."""
    try:
        encoded = encode(sys.stdin.buffer.read())
        if arguments:
            Path(arguments[0]).write_bytes(encoded)
        else:
            sys.stdout.buffer.write(encoded)
            sys.stdout.buffer.flush()
    except (DocumentError, my_writer.WriteError) as error:
        print(json.dumps({"error": {"message": str(error)}}))
        return REFUSED
    except OSError as error:
        print(error, file=sys.stderr)
        return TROUBLE
    except Exception:  # left alone, Python would exit with 1, and a bug would look like a refusal
        traceback.print_exc()
        return BUG
    return WRITTEN


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
