"""What survives in a damaged file: the parts that can be read, and how far they can be trusted.

Checksums cover whole sections, so a tensor is proved only with its section. Where a section's checksum does not match,
its readable parts are kept and called unverified. What breaks a rule but loses nothing (a name that is no UTF-8, a
reserved byte) is repaired.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ..errors import ArgumentError
from ..findings import Survivor
from ..records import public_fields, value_of, values_of
from ..source import Source
from ..spec.dtypes import OAM_BY_CODE
from ..spec.layout import Field, record_size
from ..spec.schema import (
    OAM_LEGACY,
    OAM_NEWEST,
    OAM_OPTIMIZERS,
    OAM_TENSOR_SECTIONS,
    OamConfig,
    OamOptimizer,
    OamProgress,
)
from ._anatomy import CONFIG_DERIVED, OPTIMIZER_DERIVED, Anatomy, Index, Section
from ._model import Config, Model, Optimizer, Progress, Tensor
from ._tensors import ENCODING_NAMES, raw_name
from ._write import check_tensor

__all__ = ["rescue"]

MOST_GUESSED: Final = 1 << 24  # bytes of an arch_config whose size is in doubt


def rescue(source: Source, anatomy: Anatomy, intact_only: bool = False) -> tuple[Model, list[Survivor]]:
    """Return a model of all that can be read, and what became of each part. Payloads are not touched.

    With ``intact_only``, tensors and optimizer whose checksum does not match are left out and called lost.
    """
    return _Rescue(source, anatomy, intact_only).run()


class _Rescue:
    def __init__(self, source: Source, anatomy: Anatomy, intact_only: bool) -> None:
        self.intact_only = intact_only
        self.source = source
        self.anatomy = anatomy
        self.survivors: list[Survivor] = []

    def run(self) -> tuple[Model, list[Survivor]]:
        config = self._config()
        tensors: dict[str, Any] = {name: self._tensors(name) for name in OAM_TENSOR_SECTIONS}
        model = Model(config=config, **tensors, optimizer=self._optimizer(), progress=self._progress())
        for section in self.anatomy.sections:
            if not section.counted:
                reason = "its type is unknown" if section.name.startswith("type") else "it is a second one of its type"
                self._say("section", section.name, "lost", reason)
            elif section.type == OAM_LEGACY:
                self._say("section", section.name, "lost", "a legacy kernel cache is never written")
        return model, self.survivors

    def _say(self, what: str, path: str, state: str, reason: str = "", name: str = "") -> None:
        self.survivors.append(Survivor(what=what, path=path, name=name or path, state=state, reason=reason))

    def _trust(self, section: Section) -> tuple[str, str]:
        """Return the state of what is readable in a section, and the reason if it is not intact."""
        if section.intact:
            return "intact", ""
        if section.available < section.size:
            return "unverified", f"the file ends {section.size - section.available} bytes before the section does"
        return "unverified", "the section's checksum does not match"

    def _config(self) -> Config:
        section, stored = self.anatomy.section("config"), self.anatomy.config
        if section is None or stored is None:
            self._say("section", "config", "lost", "defaults take its place")
            return Config()
        values, repairs = _readable(OamConfig, stored, CONFIG_DERIVED)
        offset, size = self.anatomy.arch_config
        room = max(0, section.offset + section.available - offset)
        if size != section.size - record_size(OamConfig) or size > room:
            size = min(room, section.size - record_size(OamConfig))
            if size > MOST_GUESSED:  # where neither the size nor the section can be believed
                size = 0
            repairs.append(f"arch_config is cut to {size} bytes")
        self._repaired("config", section, repairs)
        return Config(**values, arch_config=bytes(self.source.read(offset, size)))

    def _progress(self) -> Progress:
        section, stored = self.anatomy.section("progress"), self.anatomy.progress
        if section is None or stored is None:
            self._say("section", "progress", "lost", "defaults take its place")
            return Progress()
        values, repairs = _readable(OamProgress, stored, ())
        if section.size != record_size(OamProgress):
            repairs.append(f"its size was {section.size}")
        self._repaired("progress", section, repairs)
        return Progress(**values)

    def _repaired(self, name: str, section: Section, repairs: list[str]) -> None:
        state, reason = self._trust(section)
        if repairs:
            state = "repaired" if state == "intact" else state
            reason = "; ".join([*repairs, reason] if reason else repairs)
        self._say("section", name, state, reason)

    def _optimizer(self) -> Optimizer | None:
        section, stored = self.anatomy.section("optimizer"), self.anatomy.optimizer
        if section is None:
            return None
        if stored is None:
            self._say("section", "optimizer", "lost", "its record cannot be read")
            return None
        kind = stored["kind"].partition(b"\0")[0].decode("ascii", "replace")
        if kind not in OAM_OPTIMIZERS or not self.anatomy.moments:
            reason = "its kind is unknown" if kind not in OAM_OPTIMIZERS else "its size does not fit its moments"
            self._say("section", "optimizer", "lost", reason)
            return None
        if any(offset + size > self.source.size for offset, size in self.anatomy.moments):
            self._say("section", "optimizer", "lost", "the file ends before its moments do")
            return None
        if self.intact_only and not section.intact:
            self._say("section", "optimizer", "lost", self._trust(section)[1])
            return None
        self._repaired("optimizer", section, [])
        values = values_of(OamOptimizer, stored, OPTIMIZER_DERIVED)
        for key, (offset, size) in zip(("first_moment", "second_moment"), self.anatomy.moments, strict=False):
            values[key] = np.ndarray((size // 4,), np.dtype("<f4"), self.source.view(offset, size))
        return Optimizer(**values)

    def _tensors(self, where: str) -> dict[str, Tensor]:
        section, index = self.anatomy.section(where), self.anatomy.indexes.get(where)
        if section is None:
            return {}
        if index is None:
            self._say("section", where, "lost", "its index cannot be read")
            return {}
        self._say("section", where, *self._trust(section))
        made: dict[str, Tensor] = {}
        for row in range(len(index.entries)):
            self._tensor(where, section, index, row, made)
        return made

    def _tensor(self, where: str, section: Section, index: Index, row: int, made: dict[str, Tensor]) -> None:
        path = f"{where}[{row}]"
        name, repair = _name(index, row, made)
        try:
            tensor = self._stored(where, index, row)
        except ArgumentError as error:
            self._say("tensor", path, "lost", str(error), name)
            return
        state, reason = self._trust(section)
        if self.intact_only and state != "intact":
            self._say("tensor", path, "lost", reason, name)
            return
        made[name] = tensor
        broken = sorted(index.bad.get(row, ()))
        if broken:
            reason = "; ".join(filter(None, [repair, f"it broke {', '.join(broken)}", reason]))
            state = "repaired" if state == "intact" else state
        self._say("tensor", path, state, reason, name)

    def _stored(self, where: str, index: Index, row: int) -> Tensor:
        """Return a tensor whose payload is there and has the size that its entry gives, else raise ArgumentError."""
        entry = index.entries[row]
        dtype, encoding = OAM_BY_CODE.get(int(entry["dtype"])), ENCODING_NAMES.get(int(entry["encoding"]))
        if dtype is None or encoding is None:
            raise ArgumentError("its dtype is unknown" if dtype is None else "its encoding is unknown")
        shape = tuple(int(extent) for extent in entry["shape"])
        if int(entry["rank"]) > len(shape):
            raise ArgumentError(f"its rank, {int(entry['rank'])}, cannot be")
        shape = shape[: int(entry["rank"])]
        offset, size = int(entry["blob_offset"]), int(entry["num_bytes"])
        if offset + size > index.blob_size:
            raise ArgumentError("its payload is outside the section")
        if index.blob + offset + size > self.source.size:
            raise ArgumentError("the file ends before its payload does")
        if "OAM-TEN-OVERLAP" in index.bad.get(row, ()):
            raise ArgumentError("its payload overlaps that of another tensor")
        check_tensor("", where, OAM_NEWEST, dtype.name, shape, encoding, size)
        return Tensor(
            dtype=dtype.name, shape=shape, encoding=encoding, data=self.source.view(index.blob + offset, size)
        )


def _name(index: Index, row: int, taken: Mapping[str, Tensor]) -> tuple[str, str]:
    """Return a name for a tensor, and what was done to its own if it cannot be kept."""
    name = index.names[row]
    if name is not None and name not in taken:
        return name, ""
    raw = raw_name(index, row)
    base = name if name is not None else _escaped(raw, 100)
    made = base or f"unnamed.{row}"
    attempt = 0
    while made in taken:
        suffix = f".{row}.{attempt}" if attempt else f".{row}"
        made = base.encode()[:90].decode("utf-8", "ignore") + suffix
        attempt += 1
    return made, f"its name was {raw.hex() or 'empty'}" if name is None else "its name was taken"


def _escaped(raw: bytes, limit: int) -> str:
    text = raw.partition(b"\0")[0].decode("utf-8", "backslashreplace")
    return text.encode()[:limit].decode("utf-8", "ignore")


def _readable(record: Any, stored: Mapping[str, Any], derived: tuple[str, ...]) -> tuple[dict[str, Any], list[str]]:
    """Return the Python values of a record, what cannot be read replaced; and what was replaced."""
    values: dict[str, Any] = {}
    repairs: list[str] = []
    for item in public_fields(record, derived):
        value = stored[item.name]
        try:
            if item.role == "text" and b"\0" not in value:
                raise ValueError
            values[item.name] = value_of(item, value)
        except (ValueError, KeyError):
            values[item.name] = _replacement(item, value)
            shown = value.hex() if isinstance(value, bytes) else value
            repairs.append(f"{item.name} was {shown}")
    return values, repairs


def _replacement(item: Field, value: Any) -> Any:
    return _escaped(value, item.size - 1) if item.role == "text" else value_of(item, item.default)
