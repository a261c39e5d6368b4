"""Documents for encoders: what they must write in older versions, and what they must refuse."""

from __future__ import annotations

from typing import Any

from ....spec.schema import OAM_NEWEST, OAM_QUANT_VERSION, OAM_VERSIONS
from ..changes import Change, add_document, changed, drop, put, raw_texts
from ..definition import CaseBook

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


_Q4 = {"name": "q", "dtype": "f32", "shape": ["1"], "encoding": "q4", "data": "00" * 20}


_W = ("weights", 0)

REFUSED: dict[str, tuple[str, Change]] = {
    "name_empty": ("an empty name", put(*_W, "name", to="")),
    "name_128": ("a name of 128 bytes", put(*_W, "name", to="n" * 128)),
    "name_wide": ("a name of 64 characters and 128 bytes", put(*_W, "name", to="é" * 64)),
    "name_nul": ("a name with a NUL", put(*_W, "name", to="a\0b")),
    "name_surrogate": ("a name with a lone surrogate", put(*_W, "name", to="a\ud800")),
    "name_twice": ("a name twice", lambda made: made["weights"].append(made["weights"][0])),
    "architecture_32": ("an architecture of 32 bytes", put("config", "architecture", to="a" * 32)),
    "architecture_nul": ("an architecture with a NUL", put("config", "architecture", to="a\0")),
    "metric_32": ("a metric name of 32 bytes", put("progress", "metric_name", to="m" * 32)),
    "rank_9": ("rank 9", put(*_W, "shape", to=["1"] * 9)),
    "bytes_short": ("fewer bytes than the shape needs", put(*_W, "data", to="0000803f")),
    "bytes_long": ("more bytes than the shape needs", put(*_W, "data", to="00" * 12)),
    "elements_overflow": ("extents that reach 2^64", put(*_W, "shape", to=["4294967296", "4294967296", "0"])),
    "sizeof_f32": ("2^62 elements of 4 bytes", put(*_W, "shape", to=["4611686018427387904"])),
    "extent_2_64": ("an extent of 2^64", put(*_W, "shape", to=["18446744073709551616"])),
    "dtype_unknown": ("an unknown dtype", put(*_W, "dtype", to="f8")),
    "dtype_case": ("a dtype in capitals", put(*_W, "dtype", to="F32")),
    "encoding_unknown": ("an unknown encoding", put(*_W, "encoding", to="q5")),
    "quantized_state": ("quantized state", put("state", to=[_Q4])),
    "quantized_dtype": ("quantized f16", put("weights", to=[{**_Q4, "dtype": "f16"}])),
    "quantized_empty": (
        "a quantized tensor of no elements",
        put("weights", to=[{**_Q4, "shape": ["0"], "data": ""}]),
    ),
    "quantized_bytes": ("a quantized tensor without its scale", put("weights", to=[{**_Q4, "data": "00" * 16}])),
    "kind_unknown": ("an unknown optimizer", put("optimizer", "kind", to="Lion")),
    "kind_case": ("an optimizer in lower case", put("optimizer", "kind", to="adamw")),
    "muon_second": ("Muon with a second moment", put("optimizer", "kind", to="Muon")),
    "moments_differ": ("moments of different lengths", put("optimizer", "second_moment", to="00000000")),
    "moments_odd": ("a moment of 3 bytes", put("optimizer", "first_moment", to="000000")),
    "config_2_32": ("a config number of 2^32", put("config", "d_model", to=1 << 32)),
    "config_negative": ("a negative config number", put("config", "d_model", to=-1)),
    "phase_256": ("phase 256", put("progress", "phase", to=256)),
    "step_2_63": ("a step of 2^63", put("progress", "step", to="9223372036854775808")),
    "counter_negative": ("a negative counter", put("progress", "bytes_seen", to="-1")),
    "version_4": ("version 4", put("version", to=4)),
    "version_text": ("the version as text", put("version", to="3")),
    "version_true": ("the version as a boolean", put("version", to=True)),
    "format_unknown": ("an unknown format", put("format", to="mao")),
    "missing_key": ("a missing key", drop("config", "flags")),
    "missing_section": ("a missing section", drop("state")),
    "missing_progress": ("progress is null", put("progress", to=None)),
    "unknown_key": ("an unknown key", put(*_W, "colour", to="red")),
    "unknown_section": ("an unknown section", put("extra", to=[])),
    "hex_upper": ("hex in capitals", put(*_W, "data", to="0000803F00000040")),
    "hex_odd": ("half a byte", put(*_W, "data", to="0000803f0000004")),
    "hex_spaces": ("hex with spaces", put(*_W, "data", to="0000803f 00000040")),
    "bits_short": ("a float of 7 digits", put("progress", "best_metric", to="0x0000000")),
    "bits_number": ("a float as a number", put("progress", "best_metric", to=0.5)),
    "bits_upper": ("a float in capitals", put("progress", "best_metric", to="0x7FC00000")),
    "decimal_number": ("a 64-bit integer as a number", put("progress", "step", to=12)),
    "decimal_plus": ("a decimal string with a plus sign", put("progress", "step", to="+12")),
    "decimal_zeros": ("a decimal string with leading zeros", put("progress", "step", to="012")),
    "decimal_space": ("a decimal string with a space", put("progress", "step", to=" 12")),
    "decimal_minus_zero": ("minus zero", put("progress", "step", to="-0")),
    "decimal_arabic": ("decimal digits of another script", put("progress", "step", to="١٢")),
    "number_float": ("a number with a fraction", put("config", "d_model", to=1.0)),
    "bool_number": ("a boolean as a number", put("progress", "lower_is_better", to=1)),
    "null_name": ("a name that is null", put(*_W, "name", to=None)),
    "shape_text": ("a shape as text", put(*_W, "shape", to="2")),
    "name_bytes": ("a name as bytes", put(*_W, "name", to={"bytes": "ff"})),
}


def define(book: CaseBook) -> None:
    """Add the chapter's cases."""
    for version in OAM_VERSIONS:
        made = document() | {"version": version}
        add_document(book, f"good_v{version}", f"a good document of version {version}", made, "valid", version)
        if version < OAM_QUANT_VERSION:
            made = document() | {"version": version, "weights": [_Q4]}
            title = f"a quantized tensor in version {version}"
            add_document(book, f"quantized_v{version}", title, made, "invalid", version, "quantized")
    for name, (title, change) in REFUSED.items():
        tags = ("quantized",) if name.startswith("quantized") else ()
        add_document(book, name, title, changed(document(), change), "invalid", OAM_NEWEST, *tags)
    for name, (title, raw) in raw_texts(document(), "step", "w", "256").items():
        add_document(book, f"raw_{name}", title, raw, "invalid", OAM_NEWEST)
