"""The plain decoder with one bug put in on purpose, to show that the conformance runner finds it.

    python plain_oam_decoder_wrong.py --bug NAME [--batch | FILE | -]

The name may come from the environment variable PLAIN_OAM_BUG instead. All the rest is the plain decoder.
"""

import importlib
import os
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
plain = importlib.import_module("plain_oam_decoder")


def check_nothing(*_: Any) -> None:
    """Accept whatever the real check would refuse."""


def all_extents(tensor: Any) -> list[str]:
    return [str(extent) for extent in tensor.extents]


def float_number(data: bytes, at: int) -> object:
    return struct.unpack_from("<f", data, at)[0]


def crash(*_: Any) -> None:
    # Not an ordinary exception: Python's exit status for that is 1, which means refused.
    raise SystemExit(3)


def sleep_forever(*_: Any) -> None:
    while True:
        time.sleep(3600)


# Bug name -> the function of the plain decoder that is replaced, and what replaces it.
BUGS: dict[str, tuple[str, Callable[..., object]]] = {
    "skip-checksum": ("check_payload_checksum", check_nothing),
    "extents": ("shape_document", all_extents),
    "float-text": ("f32_bits", float_number),
    "crash": ("quantized_num_bytes", crash),
    "hang": ("decode_optimizer", sleep_forever),
    "accept-dup": ("check_name_is_new", check_nothing),
}


def main(arguments: list[str]) -> int:
    bug = os.environ.get("PLAIN_OAM_BUG", "")
    if arguments[:1] == ["--bug"]:
        bug = arguments[1] if len(arguments) > 1 else ""
        arguments = arguments[2:]
    if bug not in BUGS:
        print(f"usage: plain_oam_decoder_wrong.py --bug {{{','.join(BUGS)}}} [--batch | FILE | -]", file=sys.stderr)
        return 2
    function_name, replacement = BUGS[bug]
    if not hasattr(plain, function_name):
        raise AttributeError(f"the plain decoder has no function {function_name} to break")
    setattr(plain, function_name, replacement)
    return int(plain.main(arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
