"""Verbs of the conformance protocol: decode and encode."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

from .. import neutral
from ..errors import ArgumentError, FormatError
from ..formats import format_of, module_of
from ..progress import meter
from ..source import Source, open_file
from ..urls import shown_url
from . import os_error
from .io import open_argument, parse_argument, tell

__all__ = ["decode", "encode"]


def decode(args: argparse.Namespace) -> int:
    """Print the document and return 0, or print ``{"error": ...}`` and return 1."""
    if args.batch:
        return _batch()
    with open_argument(args.file) as source:
        answer = _answer(source)
    if "error" in answer:
        print(neutral.dump_json(answer))
        tell(answer["error"]["message"])
        return 1
    document = answer["document"]
    print(json.dumps(document, indent=2) if args.indent else neutral.dump_json(document))
    return 0


def _answer(source: Source) -> dict[str, Any]:
    try:
        with meter(source.size, "decode"):
            return {"document": module_of(format_of(source)).decode(source)}
    except FormatError as error:
        return {"error": {"rule": error.rule, "offset": error.offset, "path": error.path, "message": str(error)}}


def _batch() -> int:
    for line in sys.stdin.buffer:
        path = os.fsdecode(line.removesuffix(b"\n"))
        if not path:
            continue
        try:
            with open_file(path) as source:
                answer = _answer(source)
        except (
            OSError,
            ArgumentError,
        ) as error:  # an answer is owed; that the file cannot be read is no verdict on its content
            tell(os_error(error) if isinstance(error, OSError) else str(error))
            return 2
        print(neutral.dump_json({"path": shown_url(path), **answer}), flush=True)
    return 0


def encode(args: argparse.Namespace) -> int:
    """Write the file and return 0; a document that is refused raises ArgumentError, which makes 1."""
    from .. import encode as encode_document
    from ..publish import publishing

    document = parse_argument(args.document, neutral.parse_json)
    data = encode_document(document)
    if args.output != "-":
        with publishing(args.output) as draft:
            draft.write(data)
    elif sys.stdout.isatty():
        tell("a terminal cannot show the bytes; name a file")
        return 2
    else:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    return 0
