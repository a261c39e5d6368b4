"""Documents for encoders: what they must write in older versions, and what they must refuse."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

from ..definition import CaseBook, Definition

__all__ = ["define"]


def document() -> dict[str, Any]:
    """Return the document that the refused ones spoil; a good one."""
    tensor = {"name": "w", "dtype": "f32", "shape": ["2"], "encoding": "dense", "data": "0000803f00000040"}
    return {
        "format": "oam",
        "version": 3,
        "config": {
            "architecture": "ckptspec",
            "config_version": 1,
            "flags": 0,
            "d_model": 0,
            "n_layers": 0,
            "d_vocab": 256,
            "weight_dtype": "f32",
            "state_dtype": "f32",
            "compute_dtype": "f32",
            "arch_config": "",
        },
        "weights": [tensor],
        "state": [],
        "optimizer": {
            "kind": "AdamW",
            "learning_rate": "0x399d4952",
            "beta1": "0x3f666666",
            "beta2": "0x3f7fbe77",
            "epsilon": "0x322bcc77",
            "weight_decay": "0x3dcccccd",
            "step": "12",
            "first_moment": "0000000000000000",
            "second_moment": "0000000000000000",
        },
        "progress": {
            "phase": 0,
            "step": "12",
            "bytes_seen": "0",
            "env_steps": "0",
            "learning_rate": "0x399d4952",
            "best_metric": "0x00000000",
            "lower_is_better": True,
            "metric_name": "loss",
        },
    }


Change = Callable[[dict[str, Any]], object]

_Q4 = {"name": "q", "dtype": "f32", "shape": ["1"], "encoding": "q4", "data": "00" * 20}


def _put(*path: str | int, to: Any) -> Change:
    def change(made: dict[str, Any]) -> None:
        at: Any = made
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = to

    return change


def _drop(*path: str | int) -> Change:
    def change(made: dict[str, Any]) -> None:
        at: Any = made
        for key in path[:-1]:
            at = at[key]
        del at[path[-1]]

    return change


_W = ("weights", 0)

REFUSED: dict[str, tuple[str, Change]] = {
    "name_empty": ("an empty name", _put(*_W, "name", to="")),
    "name_128": ("a name of 128 bytes", _put(*_W, "name", to="n" * 128)),
    "name_wide": ("a name of 64 characters and 128 bytes", _put(*_W, "name", to="é" * 64)),
    "name_nul": ("a name with a NUL", _put(*_W, "name", to="a\0b")),
    "name_surrogate": ("a name with a lone surrogate", _put(*_W, "name", to="a\ud800")),
    "name_twice": ("a name twice", lambda made: made["weights"].append(made["weights"][0])),
    "architecture_32": ("an architecture of 32 bytes", _put("config", "architecture", to="a" * 32)),
    "architecture_nul": ("an architecture with a NUL", _put("config", "architecture", to="a\0")),
    "metric_32": ("a metric name of 32 bytes", _put("progress", "metric_name", to="m" * 32)),
    "rank_9": ("rank 9", _put(*_W, "shape", to=["1"] * 9)),
    "bytes_short": ("fewer bytes than the shape needs", _put(*_W, "data", to="0000803f")),
    "bytes_long": ("more bytes than the shape needs", _put(*_W, "data", to="00" * 12)),
    "elements_overflow": ("extents that reach 2^64", _put(*_W, "shape", to=["4294967296", "4294967296", "0"])),
    "extent_2_64": ("an extent of 2^64", _put(*_W, "shape", to=["18446744073709551616"])),
    "dtype_unknown": ("an unknown dtype", _put(*_W, "dtype", to="f8")),
    "dtype_case": ("a dtype in capitals", _put(*_W, "dtype", to="F32")),
    "encoding_unknown": ("an unknown encoding", _put(*_W, "encoding", to="q5")),
    "quantized_state": ("quantized state", _put("state", to=[_Q4])),
    "quantized_dtype": ("quantized f16", _put("weights", to=[{**_Q4, "dtype": "f16"}])),
    "quantized_empty": (
        "a quantized tensor of no elements",
        _put("weights", to=[{**_Q4, "shape": ["0"], "data": ""}]),
    ),
    "quantized_bytes": ("a quantized tensor without its scale", _put("weights", to=[{**_Q4, "data": "00" * 16}])),
    "kind_unknown": ("an unknown optimizer", _put("optimizer", "kind", to="Lion")),
    "kind_case": ("an optimizer in lower case", _put("optimizer", "kind", to="adamw")),
    "muon_second": ("Muon with a second moment", _put("optimizer", "kind", to="Muon")),
    "moments_differ": ("moments of different lengths", _put("optimizer", "second_moment", to="00000000")),
    "moments_odd": ("a moment of 3 bytes", _put("optimizer", "first_moment", to="000000")),
    "config_2_32": ("a config number of 2^32", _put("config", "d_model", to=1 << 32)),
    "config_negative": ("a negative config number", _put("config", "d_model", to=-1)),
    "phase_256": ("phase 256", _put("progress", "phase", to=256)),
    "step_2_63": ("a step of 2^63", _put("progress", "step", to="9223372036854775808")),
    "counter_negative": ("a negative counter", _put("progress", "bytes_seen", to="-1")),
    "version_4": ("version 4", _put("version", to=4)),
    "version_text": ("the version as text", _put("version", to="3")),
    "version_true": ("the version as a boolean", _put("version", to=True)),
    "format_unknown": ("an unknown format", _put("format", to="mao")),
    "missing_key": ("a missing key", _drop("config", "flags")),
    "missing_section": ("a missing section", _drop("state")),
    "missing_progress": ("progress is null", _put("progress", to=None)),
    "unknown_key": ("an unknown key", _put(*_W, "colour", to="red")),
    "unknown_section": ("an unknown section", _put("extra", to=[])),
    "hex_upper": ("hex in capitals", _put(*_W, "data", to="0000803F00000040")),
    "hex_odd": ("half a byte", _put(*_W, "data", to="0000803f0000004")),
    "hex_spaces": ("hex with spaces", _put(*_W, "data", to="0000803f 00000040")),
    "bits_short": ("a float of 7 digits", _put("progress", "best_metric", to="0x0000000")),
    "bits_number": ("a float as a number", _put("progress", "best_metric", to=0.5)),
    "bits_upper": ("a float in capitals", _put("progress", "best_metric", to="0x7FC00000")),
    "decimal_number": ("a 64-bit integer as a number", _put("progress", "step", to=12)),
    "decimal_plus": ("a decimal string with a plus sign", _put("progress", "step", to="+12")),
    "decimal_zeros": ("a decimal string with leading zeros", _put("progress", "step", to="012")),
    "decimal_space": ("a decimal string with a space", _put("progress", "step", to=" 12")),
    "decimal_minus_zero": ("minus zero", _put("progress", "step", to="-0")),
    "decimal_arabic": ("decimal digits of another script", _put("progress", "step", to="١٢")),
    "number_float": ("a number with a fraction", _put("config", "d_model", to=1.0)),
    "bool_number": ("a boolean as a number", _put("progress", "lower_is_better", to=1)),
    "null_name": ("a name that is null", _put(*_W, "name", to=None)),
    "shape_text": ("a shape as text", _put(*_W, "shape", to="2")),
    "name_bytes": ("a name as bytes", _put(*_W, "name", to={"bytes": "ff"})),
}

# Texts that are not even a document.
RAW: dict[str, tuple[str, bytes]] = {
    "empty": ("nothing", b""),
    "not_json": ("no JSON", b"{'format': 'oam'}"),
    "array": ("an array", b"[]"),
    "null": ("null", b"null"),
    "nan": ("NaN in the JSON", json.dumps(document()).replace(": 256", ": NaN").encode()),
    "duplicate_key": (
        "a key twice",
        json.dumps(document()).replace('"step"', '"step": "1", "step"').encode(),
    ),
    "trailing": ("text after the document", json.dumps(document()).encode() + b" x"),
    "bom": ("a byte order mark", b"\xef\xbb\xbf" + json.dumps(document()).encode()),
    "utf_16": ("UTF-16", json.dumps(document()).encode("utf-16")),
    "not_utf8": ("a name that is no UTF-8", json.dumps(document()).replace('"w"', '"\xff"').encode("latin-1")),
    "deep": ("100,000 brackets", b"[" * 100_000),
    "huge_number": ("a number of 5,000 digits", json.dumps(document()).replace(": 256", ": " + "9" * 5000).encode()),
}


def define(book: CaseBook) -> None:
    """Add the chapter's cases."""
    for version in (1, 2, 3):
        made = document() | {"version": version}
        _add(book, f"good_v{version}", f"a good document of version {version}", made, "valid", version)
        made = copy.deepcopy(document()) | {"version": version}
        made["weights"] = [_Q4]
        if version < 3:
            _add(book, f"quantized_v{version}", f"a quantized tensor in version {version}", made, "invalid", version)
    for name, (title, change) in REFUSED.items():
        made = copy.deepcopy(document())
        change(made)
        _add(book, name, title, made, "invalid")
    for name, (title, raw) in RAW.items():
        _add(book, f"raw_{name}", title, raw, "invalid")


def _add(book: CaseBook, name: str, title: str, made: dict[str, Any] | bytes, verdict: str, version: int = 3) -> None:
    text = made if isinstance(made, bytes) else json.dumps(made, indent=1).encode() + b"\n"
    book.add(
        Definition(
            name=f"document_{name}",
            title=title,
            make=lambda: text,
            verdict=verdict,
            kind="document",
            versions=(version,),
            tags=("document", *(("quantized",) if name.startswith("quantized") else ())),
            extension=".document",
        )
    )
