"""Documents for encoders: what they must write, and what they must refuse."""

from __future__ import annotations

from typing import Any, Final

from ....spec.schema import (
    OCANNL_INT_MAX,
    OCANNL_MAX_ALIGNMENT,
    OCANNL_NAMESPACE,
    OCANNL_SEEDS_VERSION,
    OCANNL_TRAINING,
    OCANNL_VERSION,
)
from ..changes import Change, add_document, changed, drop, put, raw_texts
from ..definition import CaseBook

__all__ = ["define"]

BEYOND: Final = str(OCANNL_INT_MAX + 1)
INT_MIN: Final = str(-OCANNL_INT_MAX - 1)


def document() -> dict[str, Any]:
    """Return the document that the refused ones spoil; a good one."""
    padding = {"axes": [["0", "1"], ["1", "0"]], "neutral": "0x3ff0000000000000"}
    return {
        "format": "ocannl",
        "version": OCANNL_VERSION,
        "alignment": 32,
        "tensors": [
            _tensor("0", label=["w"]),
            _tensor("1", precision="half", dims=["2", "3"], padding=padding, data="003c0040"),
        ],
        "training": {
            "version": OCANNL_SEEDS_VERSION,
            "step": "12",
            "epoch": "1",
            "position": "640",
            "host_rng": "00ff",
            "extra": [["k", "v"]],
            "seeds": ["42", "-7"],
            "state": [[OCANNL_NAMESPACE, "0"], [OCANNL_NAMESPACE, "1"]],
        },
    }


def _tensor(number: str, **values: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "namespace": OCANNL_NAMESPACE,
        "id": number,
        "label": [],
        "precision": "single",
        "dims": ["2"],
        "padding": None,
        "data": "0000803f00000040",
    }
    return made | values


def _all(*changes: Change) -> Change:
    def change(made: dict[str, Any]) -> None:
        for one in changes:
            one(made)

    return change


_W: Final = ("tensors", 0)
_P: Final = ("tensors", 1, "padding")
_T: Final = "training"
_PLAIN: Final = put(_T, to=None)

ACCEPTED: Final[dict[str, tuple[str, Change]]] = {
    "good": ("a good document", lambda made: made),
    "empty": ("no tensors", _all(put("tensors", to=[]), _PLAIN)),
    "no_training": ("no training record", _PLAIN),
    "alignment_1": ("alignment 1", put("alignment", to=1)),
    "alignment_4096": ("alignment 4096", put("alignment", to=4096)),
    "alignment_3": ("alignment 3", put("alignment", to=3)),
    "version_1": ("training of version 1, without seeds", _all(put(_T, "version", to=1), put(_T, "seeds", to=None))),
    "seeds_none": ("an empty list of seeds", put(_T, "seeds", to=[])),
    "seeds_limits": ("seeds at their limits", put(_T, "seeds", to=[str(OCANNL_INT_MAX), INT_MIN])),
    "host_rng_null": ("no generator state", put(_T, "host_rng", to=None)),
    "host_rng_empty": ("an empty generator state", put(_T, "host_rng", to="")),
    "extra_none": ("nothing in extra", put(_T, "extra", to=[])),
    "extra_empty": ("an empty key and an empty value", put(_T, "extra", to=[["", ""]])),
    "extra_bytes": ("extra of bytes", put(_T, "extra", to=[[{"bytes": "ff"}, {"bytes": "80"}]])),
    "counters_max": ("the largest step", put(_T, "step", to=str(OCANNL_INT_MAX))),
    "id_max": ("the largest id", _all(put(*_W, "id", to=str(OCANNL_INT_MAX)), _PLAIN)),
    "namespace_bytes": ("a namespace of bytes", _all(put(*_W, "namespace", to={"bytes": "ff00"}), _PLAIN)),
    "namespace_surrogate": ("a surrogate as bytes", _all(put(*_W, "namespace", to={"bytes": "eda080"}), _PLAIN)),
    "namespace_nul": ("a namespace of a NUL", _all(put(*_W, "namespace", to="\0"), _PLAIN)),
    "label_odd": ("odd labels", put(*_W, "label", to=["", " ", '"', "a\nb", "\\", "#|", "é", {"bytes": "c3"}])),
    "neutral_nan": ("a neutral NaN", put(*_P, "neutral", to="0x7ff8000000000000")),
    "neutral_nan_minus": ("a neutral NaN with a sign", put(*_P, "neutral", to="0xfff8000000000000")),
    "neutral_minus_zero": ("a neutral -0", put(*_P, "neutral", to="0x8000000000000000")),
    "neutral_inf": ("a neutral infinity", put(*_P, "neutral", to="0xfff0000000000000")),
    "neutral_smallest": ("the smallest neutral value", put(*_P, "neutral", to="0x0000000000000001")),
    "neutral_largest": ("the largest neutral value", put(*_P, "neutral", to="0x7fefffffffffffff")),
    "neutral_17": ("a neutral value of 17 digits", put(*_P, "neutral", to="0x3fd5555555555555")),
    "padding_scalar": (
        "a scalar with a padding",
        put(
            *("tensors", 1),
            to=_tensor("1", dims=[], padding={"axes": [], "neutral": "0x0000000000000000"}, data="00000000"),
        ),
    ),
    "void": ("a void tensor", put(*_W, to=_tensor("0", precision="void", dims=["3"], data=""))),
    "zero": ("a tensor of no elements", put(*_W, to=_tensor("0", dims=["3", "0"], data=""))),
}

REFUSED: Final[dict[str, tuple[str, Change]]] = {
    "namespace_empty": ("an empty namespace", put(*_W, "namespace", to="")),
    "namespace_surrogate_text": ("a namespace with a lone surrogate", put(*_W, "namespace", to="a\ud800")),
    "namespace_bytes_empty": ("a namespace of no bytes", put(*_W, "namespace", to={"bytes": ""})),
    "namespace_bytes_utf8": ("UTF-8 as bytes", put(*_W, "namespace", to={"bytes": "6f63616e6e6c"})),
    "namespace_bytes_upper": ("bytes in capitals", put(*_W, "namespace", to={"bytes": "FF"})),
    "namespace_bytes_key": ("bytes and another key", put(*_W, "namespace", to={"bytes": "ff", "text": "x"})),
    "namespace_null": ("a namespace that is null", put(*_W, "namespace", to=None)),
    "label_text": ("a label that is text", put(*_W, "label", to="w")),
    "label_number": ("a number in a label", put(*_W, "label", to=[1])),
    "label_surrogate": ("a label with a lone surrogate", put(*_W, "label", to=["\udfff"])),
    "label_bytes_utf8": ("a label of bytes that are UTF-8", put(*_W, "label", to=[{"bytes": "77"}])),
    "id_number": ("an id as a number", put(*_W, "id", to=0)),
    "id_zeros": ("an id with leading zeros", put(*_W, "id", to="00")),
    "id_plus": ("an id with a plus sign", put(*_W, "id", to="+0")),
    "id_minus_zero": ("an id of -0", put(*_W, "id", to="-0")),
    "id_minus": ("a negative id", put(*_W, "id", to="-1")),
    "id_2_62": ("an id of 2^62", put(*_W, "id", to=BEYOND)),
    "id_hex": ("an id in hexadecimal", put(*_W, "id", to="0x0")),
    "id_empty": ("an empty id", put(*_W, "id", to="")),
    "precision_header": ("a precision in the header's spelling", put(*_W, "precision", to="Single_prec")),
    "precision_suffix": ("a precision with its suffix", put(*_W, "precision", to="single_prec")),
    "precision_case": ("a precision in capitals", put(*_W, "precision", to="Single")),
    "precision_unknown": ("an unknown precision", put(*_W, "precision", to="f32")),
    "precision_null": ("a precision that is null", put(*_W, "precision", to=None)),
    "dims_text": ("dims as text", put(*_W, "dims", to="2")),
    "dims_numbers": ("dims as numbers", put(*_W, "dims", to=[2])),
    "dims_zeros": ("an extent with leading zeros", put(*_W, "dims", to=["02"])),
    "dims_minus": ("negative extents", put(*_W, "dims", to=["-1", "-2"])),
    "dims_2_62": ("an extent of 2^62", put(*_W, to=_tensor("0", dims=["0", BEYOND], data=""))),
    "dims_product": (
        "extents whose product is too large",
        put(*_W, to=_tensor("0", dims=[str(1 << 61), "4", "0"], data="")),
    ),
    "dims_element": ("too many bytes", put(*_W, to=_tensor("0", dims=[str(1 << 60)], data=""))),
    "data_short": ("fewer bytes than the shape needs", put(*_W, "data", to="0000803f")),
    "data_long": ("more bytes than the shape needs", put(*_W, "data", to="00" * 12)),
    "data_padded": ("the margins' bytes too", put("tensors", 1, "data", to="00" * 12)),
    "data_void": ("a void tensor with a byte", put(*_W, to=_tensor("0", precision="void", data="00"))),
    "data_upper": ("hex in capitals", put(*_W, "data", to="0000803F00000040")),
    "data_odd": ("half a byte", put(*_W, "data", to="0000803f0000004")),
    "data_spaces": ("hex with spaces", put(*_W, "data", to="0000803f 00000040")),
    "data_null": ("data that is null", put(*_W, "data", to=None)),
    "padding_none": ("a padding that is the text none", put(*_P, to="none")),
    "padding_count": ("one pair for two extents", put(*_P, "axes", to=[["0", "1"]])),
    "padding_fit": ("more padding than there is", put(*_P, "axes", to=[["0", "0"], ["2", "2"]])),
    "padding_minus": ("a negative padding", put(*_P, "axes", to=[["-1", "2"], ["1", "0"]])),
    "padding_triple": ("three numbers for an axis", put(*_P, "axes", to=[["0", "1", "0"], ["1", "0"]])),
    "padding_numbers": ("padding as numbers", put(*_P, "axes", to=[[0, 1], [1, 0]])),
    "neutral_null": ("a neutral value that is null", put(*_P, "neutral", to=None)),
    "neutral_number": ("a neutral value that is a number", put(*_P, "neutral", to=1.0)),
    "neutral_short": ("a neutral value of 32 bits", put(*_P, "neutral", to="0x3f800000")),
    "neutral_upper": ("a neutral value in capitals", put(*_P, "neutral", to="0x3FF0000000000000")),
    **{
        f"neutral_nan_{at}": ("a NaN that has no spelling", put(*_P, "neutral", to=f"0x{bits:016x}"))
        for at, bits in enumerate(
            (
                0x7FF0000000000001,
                0x7FF4000000000000,
                0x7FF8000000000001,
                0x7FFFFFFFFFFFFFFF,
                0xFFF0000000000001,
                0xFFF8000000000001,
                0xFFFFFFFFFFFFFFFF,
            )
        )
    },
    "tensor_twice": ("a tensor twice", lambda made: made["tensors"].append(made["tensors"][0])),
    "alignment_0": ("alignment 0", put("alignment", to=0)),
    "alignment_minus": ("a negative alignment", put("alignment", to=-1)),
    "alignment_large": ("an alignment that is too large", put("alignment", to=OCANNL_MAX_ALIGNMENT + 1)),
    "alignment_text": ("an alignment as text", put("alignment", to="32")),
    "alignment_null": ("an alignment that is null", put("alignment", to=None)),
    "alignment_float": ("an alignment with a fraction", put("alignment", to=32.0)),
    "alignment_true": ("an alignment that is true", put("alignment", to=True)),
    "version_2": ("version 2", put("version", to=2)),
    "version_0": ("version 0", put("version", to=0)),
    "version_text": ("the version as text", put("version", to="1")),
    "version_true": ("the version as a boolean", put("version", to=True)),
    "version_float": ("the version with a fraction", put("version", to=1.0)),
    "format_case": ("the format in capitals", put("format", to="OCANNL")),
    "tensors_null": ("tensors that are null", put("tensors", to=None)),
    "tensors_object": ("tensors as an object", put("tensors", to={})),
    "tensor_null": ("a tensor that is null", put(*_W, to=None)),
    "training_version_0": ("training of version 0", put(_T, "version", to=0)),
    "training_version_3": ("training of version 3", put(_T, "version", to=3)),
    "training_version_text": ("training's version as text", put(_T, "version", to="2")),
    "training_version_true": (
        "training's version as a boolean",
        _all(put(_T, "version", to=True), put(_T, "seeds", to=None)),
    ),
    "seeds_v1": ("seeds in version 1", put(_T, "version", to=1)),
    "seeds_v1_none": ("an empty list of seeds in version 1", _all(put(_T, "version", to=1), put(_T, "seeds", to=[]))),
    "seeds_v2": ("no seeds in version 2", put(_T, "seeds", to=None)),
    "seeds_numbers": ("seeds as numbers", put(_T, "seeds", to=[42])),
    "seeds_2_62": ("a seed of 2^62", put(_T, "seeds", to=[BEYOND])),
    "seeds_min": ("a seed below -2^62", put(_T, "seeds", to=[str(int(INT_MIN) - 1)])),
    "host_rng_upper": ("a generator state in capitals", put(_T, "host_rng", to="FF")),
    "host_rng_bytes": ("a generator state as an object", put(_T, "host_rng", to={"bytes": "ff"})),
    "extra_twice": ("a key of extra twice", put(_T, "extra", to=[["k", "1"], ["k", "2"]])),
    "extra_object": ("extra as an object", put(_T, "extra", to={"k": "v"})),
    "extra_triple": ("three texts in extra", put(_T, "extra", to=[["k", "v", "x"]])),
    "extra_number": ("a number in extra", put(_T, "extra", to=[["k", 1]])),
    "extra_surrogate": ("a value of extra with a lone surrogate", put(_T, "extra", to=[["k", "\ud800"]])),
    "extra_bytes_utf8": ("a value of extra of bytes that are UTF-8", put(_T, "extra", to=[["k", {"bytes": "76"}]])),
    "state_empty": ("an empty state", put(_T, "state", to=[])),
    "state_twice": ("a tensor twice in the state", lambda made: made[_T]["state"].append(made[_T]["state"][0])),
    "state_absent": ("the state names a tensor that is not there", put(_T, "state", 0, to=[OCANNL_NAMESPACE, "2"])),
    "state_namespace": ("the state names another namespace", put(_T, "state", 0, to=["other", "0"])),
    "state_old": ("the state spells the default namespace as nothing", put(_T, "state", 0, to=["", "0"])),
    "state_number": ("an id in the state as a number", put(_T, "state", 0, to=[OCANNL_NAMESPACE, 0])),
    "state_single": ("an id alone in the state", put(_T, "state", 0, to=["0"])),
    **{
        f"training_{key}_{name}": (f"{key} {value!r}", put(_T, key, to=value))
        for key in ("step", "epoch", "position")
        for name, value in (("minus", "-1"), ("number", 1), ("2_62", BEYOND), ("zeros", "01"))
    },
    "training_list": ("training as a list", put(_T, to=[])),
    "training_true": ("training that is true", put(_T, to=True)),
    **{
        f"unknown_{at}": ("an unknown key", put(*path, "colour", to="red"))
        for at, path in enumerate(((), _W, _P, (_T,)))
    },
    "unknown_offset": ("a key of the header that documents lack", put(*_W, "offset", to="0")),
}

# Every key of a document is mandatory.
MISSING: Final[tuple[tuple[str | int, ...], ...]] = (
    *((key,) for key in document() if key != "format"),
    *((*_W, key) for key in document()["tensors"][0]),
    *((*_P, key) for key in ("axes", "neutral")),
    *((_T, key.name) for key in OCANNL_TRAINING),
)


def _features(made: dict[str, Any]) -> list[str]:
    """Return the tags of what an implementation may lack."""
    tensors = [tensor for tensor in made.get("tensors") or () if isinstance(tensor, dict)]
    features = {
        "training": made.get(_T),
        "padding": any(tensor["padding"] for tensor in tensors),
        "void": any(tensor["precision"] == "void" for tensor in tensors),
    }
    return [tag for tag, there in features.items() if there]


def define(book: CaseBook) -> None:
    """Add the chapter's cases."""
    for verdict, table in (("valid", ACCEPTED), ("invalid", REFUSED)):
        for name, (title, change) in table.items():
            made = changed(document(), change)
            add_document(book, name, title, made, verdict, OCANNL_VERSION, *_features(made))
    for path in MISSING:
        name = "_".join(str(part) for part in path)
        title = f"no {path[-1]}" + (f" in {path[-2]}" if isinstance(path[-2:][0], str) and len(path) > 1 else "")
        add_document(book, f"missing_{name}", title, changed(document(), drop(*path)), "invalid", OCANNL_VERSION)
    for name, (title, raw) in raw_texts(document(), "step", "w", "32").items():
        add_document(book, f"raw_{name}", title, raw, "invalid", OCANNL_VERSION)
