"""What ``inspect`` prints of a file's parts, format by format."""

from __future__ import annotations

from typing import Any, Final

from ..terminal import Style, columns
from ..text import printable

__all__ = ["print_parts"]


def print_parts(format: str | None, parts: dict[str, Any], style: Style) -> None:
    """Print what ``inspect`` found in a file of a format, if it found anything."""
    if parts and format is not None:
        _PRINTERS[format](parts, style)


# ---------------------------------------------------------------------------------------------------------------- .oam


def _print_oam(parts: dict[str, Any], style: Style) -> None:
    print(style.bold("sections"))
    mark = {True: "checksum matches", False: "CHECKSUM DOES NOT MATCH", None: "not verified"}
    rows = [["  name", "offset", "size", "checksum", ""]]
    rows += [
        [f"  {item['name']}", str(item["offset"]), str(item["size"]), item["checksum"], mark[item["intact"]]]
        for item in parts["sections"]
    ]
    print(*columns(rows, right=(1, 2)), sep="\n")
    for name in ("config", "optimizer", "progress"):
        record = parts[name]
        there = any(item["name"] == name for item in parts["sections"])
        print(style.bold(name) + ("" if record else ": cannot be read" if there else ": none"))
        if record:
            print(*columns([[f"  {key}", str(value)] for key, value in record.items()]), sep="\n")
    tensors = parts["tensors"]
    print(style.bold("tensors") + ("" if tensors else ": none"))
    if tensors:
        rows = [["  section", "name", "dtype", "shape", "encoding", "offset", "bytes"]]
        rows += [_oam_row(item) for item in tensors]
        print(*columns(rows, right=(5, 6)), sep="\n")


def _oam_row(item: dict[str, Any]) -> list[str]:
    shape = " x ".join(str(extent) for extent in item["shape"]) or "scalar"
    name = printable(item["name"]) + ("" if item["accepted"] else "  (refused)")
    return [
        f"  {item['section']}",
        name,
        item["dtype"],
        shape,
        item["encoding"],
        str(item["offset"]),
        str(item["size"]),
    ]


# --------------------------------------------------------------------------------------------------- OCANNL checkpoints


def _print_ocannl(parts: dict[str, Any], style: Style) -> None:
    header = parts["header"]
    print(style.bold("header"))
    print(*columns([[f"  {key}", str(value)] for key, value in header.items()]), sep="\n")
    tensors = parts["tensors"]
    print(style.bold("tensors") + ("" if tensors else ": none"))
    if tensors:
        rows = [["  namespace", "id", "label", "precision", "dims", "padding", "offset", "bytes"]]
        rows += [_ocannl_row(item) for item in tensors]
        print(*columns(rows, right=(1, 6, 7)), sep="\n")
    training = parts["training"]
    print(style.bold("training") + ("" if training else ": none"))
    if training:
        rows = [[f"  {key}", _training_value(key, value)] for key, value in training.items() if key != "accepted"]
        print(*columns(rows), sep="\n")


def _plain(value: Any) -> str:
    return "?" if value is None else str(value)


def _ocannl_row(item: dict[str, Any]) -> list[str]:
    dims = "?" if item["dims"] is None else " x ".join(map(str, item["dims"])) or "scalar"
    padding = item["padding"]
    margins = "" if padding is None else " ".join(f"{left}+{right}" for left, right in padding["axes"])
    return [
        f"  {_plain(item['namespace'])}",
        _plain(item["id"]),
        " ".join(item["label"] or ()) + ("" if item["accepted"] else "  (refused)"),
        _plain(item["precision"]),
        dims,
        "" if padding is None else f"{margins} of {_plain(padding['neutral'])}",
        _plain(item["offset"]),
        _plain(item["size"]),
    ]


def _training_value(key: str, value: Any) -> str:
    if key == "extra" and value:
        return ", ".join(f"{name} = {content}" for name, content in value)
    if key == "state" and value:
        return ", ".join(f"{namespace}:{number}" for namespace, number in value)
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return _plain(value)


# --------------------------------------------------------------------------------------------------- safetensors files


def _print_safetensors(parts: dict[str, Any], style: Style) -> None:
    print(style.bold("header"))
    print(*columns([[f"  {key}", str(value)] for key, value in parts["header"].items()]), sep="\n")
    metadata = parts["metadata"]
    print(style.bold("metadata") + (": none" if metadata is None else "" if metadata else ": empty"))
    if metadata:
        print(*columns([[f"  {printable(key)}", printable(value)] for key, value in metadata.items()]), sep="\n")
    tensors = parts["tensors"]
    print(style.bold("tensors") + ("" if tensors else ": none"))
    if tensors:
        rows = [["  name", "dtype", "shape", "offset", "bytes"]]
        rows += [_safetensors_row(item) for item in tensors]
        print(*columns(rows, right=(3, 4)), sep="\n")


def _safetensors_row(item: dict[str, Any]) -> list[str]:
    shape = "?" if item["shape"] is None else " x ".join(map(str, item["shape"])) or "scalar"
    name = printable(item["name"]) + ("" if item["accepted"] else "  (refused)")
    return [f"  {name}", _plain(item["dtype"]), shape, _plain(item["offset"]), _plain(item["size"])]


_PRINTERS: Final = {"oam": _print_oam, "ocannl": _print_ocannl, "safetensors": _print_safetensors}
