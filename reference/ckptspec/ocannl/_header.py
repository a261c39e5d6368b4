"""From a header's text to its records, by the tables of the schema.

Nearly all tensor records are spelled as a writer spells them and break no rule: ``_PlainReader`` reads those, and gives
up without a word at whatever is not plain. ``_Reading`` reads everything, knows where each value stands and emits the
findings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from .. import sexp
from ..examination import Examination, Stop
from ..sexp import Sexp
from ..spec.rules import REJECT, RULES
from ..spec.schema import (
    OCANNL_HEADER,
    OCANNL_INT_MAX,
    OCANNL_MAX_ALIGNMENT,
    OCANNL_MAX_DEPTH,
    OCANNL_RECORDS,
    OCANNL_SEEDS_VERSION,
    OCANNL_TRAINING_VERSIONS,
    OCANNL_VERSION,
    VALUE_KINDS,
)
from ..text import count, show
from ._anatomy import DEFAULT, FRAME_SIZE, PRECISIONS, Anatomy, Entry, Training
from ._layout import Broken, measure
from ._nodes import atom, named, said
from ._places import Nowhere, Places
from ._values import ValueReader, form_of

__all__ = ["read_header", "read_records"]

_KEYS: Final = {name: {key.name.encode(): key for key in table} for name, table in OCANNL_RECORDS.items()}
_PLACES: Final = {kind: {key.name: place for place, key in enumerate(table)} for kind, table in OCANNL_RECORDS.items()}

# ------------------------------------------------------------------------------------------------------- the plain way

_TENSORS: Final = next(key.name.encode() for key in OCANNL_HEADER if key.kind == "tensors")
_IN_TENSORS: Final = 3  # the level of tensor records in the header
_STRIPPED: Final = b" \t\n\v\f\r"  # what OCaml's String.strip takes from both ends
_TENSOR_KEYS: Final = tuple(_KEYS["tensor"])
_SMALL: Final = {b"%d" % number: number for number in range(4096)}
_DIGITS: Final = 18  # of a decimal number that is within 63 bits whatever its digits are


def _plain_int(value: Any) -> int:
    number = _SMALL.get(value)
    if number is None:
        if len(value) > _DIGITS or not value.isdigit() or value[0] == 48:
            raise ValueError
        number = int(value)
    return number


def _plain_atoms(value: Any) -> tuple[bytes, ...]:
    if type(value) is not tuple:
        raise ValueError
    b"".join(value)  # TypeError unless all are atoms
    return value


def _plain_ints(value: Any) -> tuple[int, ...]:
    if type(value) is not tuple:
        raise ValueError
    return tuple([_plain_int(item) for item in value])


def _plain_padding(value: Any) -> Any:
    if value == b"none":
        return ()
    axes, neutral = value
    number = sexp.parse_float(neutral)
    if type(axes) is not tuple or sexp.format_float(number) != neutral:
        raise ValueError
    return tuple([(_plain_int(left), _plain_int(right)) for left, right in axes]), number


_PLAIN_SHAPE: Final = (PRECISIONS.__getitem__, _plain_ints, _plain_padding)
_SHAPES: Final = 256  # that many are remembered
if _TENSOR_KEYS != (b"id", b"namespace", b"label", b"prec", b"dims", b"padding", b"offset", b"byte_length"):
    raise AssertionError("the plain way does not follow the schema")


class _PlainReader:
    """Reads records that are spelled plainly and break no rule of their own, and remembers the shapes that it met.

    ``room`` is the size of the data section in bytes, ``legacy`` whether an empty namespace may pass without a word.
    """

    def __init__(self, room: int, legacy: bool) -> None:
        self._room = room
        self._legacy = legacy
        self._shapes: dict[tuple[Sexp, ...], tuple[Any, ...]] = {}  # from precision, extents and padding

    def entry(self, record: Any) -> Entry | None:
        """Return the tensor of a record, or None if something is not plain."""
        try:
            keys, values = zip(*record, strict=True)
            if keys != _TENSOR_KEYS:
                return None
            number, namespace, label, prec, dims, padding, offset, length = values
            start, needed = _plain_int(offset), _plain_int(length)
            shape = self._shapes.get((prec, dims, padding))
            if shape is None:
                shape = self._shape(prec, dims, padding)
            scalar, extents, margins, stored, size = shape
            if needed != size or start + size > self._room or type(namespace) is not bytes:
                return None
            if not namespace:
                if not self._legacy:
                    return None
                namespace = DEFAULT
            words = _plain_atoms(label)
            return Entry(_plain_int(number), namespace, words, scalar, extents, margins, start, size, stored)
        except (ValueError, TypeError, LookupError, AttributeError, Broken):
            return None

    def _shape(self, *values: Any) -> tuple[Any, ...]:
        """Return precision, extents, padding, the extents that are stored, and the bytes that they take."""
        prec, dims, padding = (read(value) for read, value in zip(_PLAIN_SHAPE, values, strict=True))
        shape = (prec, dims, padding, *measure(prec.size, dims, padding[0] if padding else None))
        if len(self._shapes) < _SHAPES:
            self._shapes[values] = shape
        return shape


# ------------------------------------------------------------------------------------------------------- the whole way


def read_header(exam: Examination, anatomy: Anatomy) -> None:
    """Read the records of the header's text into the anatomy. Raises Stop if the text cannot be read."""
    _Reading(exam, anatomy).header()


def read_records(exam: Examination, anatomy: Anatomy, tensors: Iterable[Sexp], trainings: Iterable[Sexp]) -> None:
    """Read tensor records, and the first training record, that were found one by one; their places do not count."""
    anatomy.places = Nowhere()
    _Reading(exam, anatomy).records(tensors, trainings)


class _Record:
    """A record that is being read, pair by pair. ``paths`` lead to the values that were read."""

    def __init__(
        self,
        reading: _Reading,
        kind: str,
        path: tuple[int, ...],
        name: str,
        readers: Mapping[str, Callable[[Any, tuple[int, ...]], Any]] | None = None,
    ) -> None:
        self.reading = reading
        self.keys = _KEYS[kind]
        self.places = _PLACES[kind]
        self.path = path
        self.name = name
        self.readers = readers or {}
        self.values: dict[str, Any] = dict.fromkeys(self.places)
        self.paths: dict[str, tuple[int, ...]] = {}
        self._latest = -1

    def take(self, index: int, pair: Sexp) -> None:
        """Read the pair at an index."""
        emit, at = self.reading.emit, (*self.path, index)
        if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[0], bytes):
            if self.reading.silent("OCANNL-REC-PAIRS"):
                if not self.path:  # so much of it is no header that the rest is not read
                    raise Stop
                return
            emit("OCANNL-REC-PAIRS", at, f"{self.name}[{index}]", form_of(pair), "a (key value) pair")
            return
        key = self.keys.get(pair[0])
        if key is None:
            if self.reading.silent("OCANNL-REC-UNKNOWN"):
                return
            emit("OCANNL-REC-UNKNOWN", at, self.name, f"the key {show(pair[0])}", "none but the known ones")
            return
        name = f"{self.name}.{key.name}"
        if key.name in self.paths:
            emit("OCANNL-REC-REPEATED", at, name, "it again", "it once")
            return
        place = self.places[key.name]
        if place < self._latest:
            emit("OCANNL-REC-ORDER", at, name, f"it after {list(self.places)[self._latest]}", "it before")
        else:
            self._latest = place
        inside = self.paths[key.name] = (*at, 1)
        special = self.readers.get(key.name)
        if special is not None:
            self.values[key.name] = special(pair[1], inside)
        else:
            self.values[key.name] = self.reading.value(key, pair[1], inside, name)

    def finish(self) -> dict[str, Any]:
        """Return the values by their keys, None for those that are not there or cannot be read."""
        for key in self.keys.values():
            if not key.optional and key.name not in self.paths:
                found, expected = f"no {key.name}", f"{key.name}, {VALUE_KINDS[key.kind]}"
                self.reading.emit("OCANNL-REC-MISSING", self.path, self.name, found, expected)
        return self.values


class _Reading(ValueReader):
    """One pass over one header. A ``path`` leads to an expression, by the indices of lists; a ``name`` says it."""

    def __init__(self, exam: Examination, anatomy: Anatomy) -> None:
        self.exam = exam
        self.anatomy = anatomy
        self.plain = _PlainReader(anatomy.size - anatomy.data, not exam.thorough)
        self.broken: set[str] = set()  # reject rules that were broken since somebody emptied it
        self.current: Sexp | None = None  # the tensor record that is being read
        self.whose: str | None = None  # which tensor it is about, once that was asked for

    def emit(
        self, rule: str, path: tuple[int, ...], name: str, found: object, expected: object, hint: str = ""
    ) -> None:
        if RULES[rule].kind == REJECT:
            self.broken.add(rule)
        if self.exam.wants(rule):
            if self.whose is None:
                self.whose = _whose(self.current)
            hint = " ".join(filter(None, (hint, self.whose)))
            self.exam.emit(rule, *self.anatomy.places.find(path), name, found, expected, hint)

    def silent(self, rule: str) -> bool:
        """Say whether a break of a rule, of which there may be a great many, needs no words; it is counted anyway."""
        if self.exam.wants(rule):
            return False
        if RULES[rule].kind == REJECT:
            self.broken.add(rule)
        return True

    def header(self) -> None:
        """Read the whole header, record by record as the text is read."""
        readers = {
            "version": self._version,
            "alignment": self._alignment,
            "tensors": self._tensors,
            "training": self._training,
        }
        record = _Record(self, "header", (), "header", readers)
        index = 0
        text = self._stripped()
        try:
            for level, _, value in sexp.parse_records(text, max_depth=OCANNL_MAX_DEPTH, streamed=(_TENSORS,)):
                if level == _IN_TENSORS:
                    if _TENSORS.decode() not in record.paths:  # the first one counts
                        self._tensor(value, (index, 1))
                elif level:
                    record.take(index, value)
                    index += 1
                else:
                    self.emit("OCANNL-REC-PAIRS", (), "header", form_of(value), "a list of (key value) pairs")
                    raise Stop
        except sexp.SexpError as error:
            self._syntax(error)
        if _TENSORS.decode() not in record.paths:
            self.anatomy.entries.clear()
        record.finish()
        if "alignment" not in record.paths:
            self.emit("OCANNL-HDR-OLD", (), "header.alignment", "none, which means 1", "it to be written")

    def _version(self, value: Sexp, path: tuple[int, ...]) -> None:
        version = self.value(_KEYS["header"][b"version"], value, path, "header.version")
        if version is not None and version != OCANNL_VERSION:
            self.emit("OCANNL-HDR-VERSION", path, "header.version", version, OCANNL_VERSION)
        self.anatomy.version = version

    def _alignment(self, value: Sexp, path: tuple[int, ...]) -> None:
        alignment = self.value(_KEYS["header"][b"alignment"], value, path, "header.alignment")
        if alignment is not None and alignment > OCANNL_MAX_ALIGNMENT:
            self.emit("OCANNL-HDR-ALIGNMAX", path, "header.alignment", alignment, f"at most {OCANNL_MAX_ALIGNMENT}")
        elif alignment is not None:
            self.anatomy.alignment = alignment

    def records(self, tensors: Iterable[Sexp], trainings: Iterable[Sexp]) -> None:
        """Read records that stand somewhere in a damaged text."""
        for value in tensors:
            self._tensor(value, ())
        for value in trainings:
            if self.anatomy.training is None:
                self._training(value, ())

    def _stripped(self) -> bytes:
        """Return the text without what OCaml strips from its ends, and S-expressions do not take for blanks."""
        anatomy = self.anatomy
        text = anatomy.text
        if text and (text[0] in _STRIPPED or text[-1] in _STRIPPED):
            start = len(text) - len(text.lstrip(_STRIPPED))
            text = text.strip(_STRIPPED)
            anatomy.places = Places(text, anatomy.places.base + start)
            ends = (anatomy.text[:start], anatomy.text[start + len(text) :])
            at = next((end for end in ends if b"\v" in end or b"\r" in end.replace(b"\r\n", b"")), None)
            if at is not None and text:
                offset = FRAME_SIZE + (0 if at is ends[0] else start + len(text))
                found = "bytes that are no blanks in S-expressions"
                self.exam.emit("OCANNL-TXT-BLANKS", offset, len(at), "header", found, "spaces")
        return text

    def _syntax(self, error: sexp.SexpError) -> None:
        """Emit what is wrong with the text, and stop: nothing in it can be trusted."""
        self.anatomy.syntax = error
        deep = "nested deeper" in error.message
        rule = "OCANNL-TXT-DEPTH" if deep else "OCANNL-TXT-SYNTAX"
        expected = f"at most {OCANNL_MAX_DEPTH} lists open at a time" if deep else "exactly one S-expression"
        self.exam.emit(rule, self.anatomy.places.base + error.offset, 1, "header", error.message, expected)
        raise Stop

    # ------------------------------------------------------------------------------------------------------- records

    def record(self, kind: str, value: Sexp, path: tuple[int, ...], name: str) -> dict[str, Any]:
        """Return the values of a record by their keys, None for those that are not there or cannot be read."""
        record = _Record(self, kind, path, name)
        if not isinstance(value, tuple):
            self.emit("OCANNL-REC-PAIRS", path, name, form_of(value), "a list of (key value) pairs")
            return record.values
        for index, pair in enumerate(value):
            record.take(index, pair)
        return record.finish()

    # ------------------------------------------------------------------------------------------------------- tensors

    def _tensors(self, value: Sexp, path: tuple[int, ...]) -> None:
        """Take the list of tensor records, which were read already."""
        self.anatomy.tensors = path
        if not isinstance(value, tuple):
            self.emit("OCANNL-REC-VALUE", path, "header.tensors", form_of(value), VALUE_KINDS["tensors"])

    def _tensor(self, record: Sexp, path: tuple[int, ...]) -> None:
        entries = self.anatomy.entries
        entry = self.plain.entry(record)
        row = len(entries)
        entries.append(self._entry(record, (*path, row), row) if entry is None else entry)

    def _entry(self, record: Sexp, path: tuple[int, ...], row: int) -> Entry:
        """Read a tensor record of which something is not plain."""
        name = f"tensors[{row}]"
        self.broken = set()
        self.current, self.whose = record, None
        entry = Entry(**self.record("tensor", record, path, name))

        def emit(rule: str, where: tuple[str | int, ...], found: object, expected: object, hint: str = "") -> None:
            at = (*path, *_path_of(record, str(where[0])), *(i for i in where[1:] if isinstance(i, int)))
            self.emit(rule, at, f"{name}.{where[0]}", found, expected, hint)

        if entry.namespace == b"":
            emit("OCANNL-TEN-LEGACY", ("namespace",), "the empty atom", DEFAULT.decode())
            entry.namespace = DEFAULT
        needed = self._measured(entry, emit)
        if needed is not None and entry.byte_length is not None and needed != entry.byte_length:
            emit("OCANNL-TEN-BYTES", ("byte_length",), entry.byte_length, f"{needed}, as shape and precision give")
        if entry.offset is not None and entry.byte_length is not None:
            self._range(entry, entry.offset, entry.byte_length, emit)
        entry.bad = frozenset(self.broken)
        self.current = self.whose = None
        return entry

    def _measured(self, entry: Entry, emit: Callable[..., None]) -> int | None:
        """Return how many bytes the payload takes, or None if that cannot be told."""
        if entry.prec is None or entry.dims is None or entry.padding is None:
            return None
        try:
            axes = entry.padding[0] if entry.padding else None
            entry.stored, needed = measure(entry.prec.size, entry.dims, axes)
        except Broken as broken:
            emit(broken.rule, broken.where, broken.found, broken.expected)
            return None
        return needed

    def _range(self, entry: Entry, offset: int, length: int, emit: Callable[..., None]) -> None:
        end, size = self.anatomy.data + offset + length, self.anatomy.size
        if end > OCANNL_INT_MAX:
            emit(
                "OCANNL-TEN-OVERFLOW",
                ("offset",),
                f"{offset}, which makes {end}",
                f"an end of at most {OCANNL_INT_MAX}",
            )
        elif end > size:
            room = size - self.anatomy.data
            hint = f"The file is {count(end - size, 'byte')} too short for this payload."
            emit("OCANNL-TEN-RANGE", ("offset",), f"{offset} to {offset + length}", f"within {room} bytes", hint)

    # ------------------------------------------------------------------------------------------------------ training

    def _training(self, value: Sexp, path: tuple[int, ...]) -> None:
        self.broken = set()
        training = Training(**self.record("training", value, path, "training"))
        self.anatomy.training, self.anatomy.record = training, path

        paths: dict[str, tuple[int, ...]] = {}

        def at(key: str, *more: int) -> tuple[int, ...]:
            if key not in paths:
                paths[key] = _path_of(value, key)
            return (*path, *paths[key], *more)

        if training.version is not None and training.version not in OCANNL_TRAINING_VERSIONS:
            known = " or ".join(map(str, OCANNL_TRAINING_VERSIONS))
            self.emit("OCANNL-TRN-VERSION", at("version"), "training.version", training.version, known)
        elif training.version is not None:
            self._seeds(training, training.version, at, _path_of(value, "seeds") != ())
        keys: set[bytes] = set()
        for index, (key, _) in enumerate(training.extra or ()):
            if key in keys:
                where = f"training.extra[{index}]"
                self.emit("OCANNL-TRN-EXTRA", at("extra", index, 0), where, f"{show(key)} again", "it once")
            keys.add(key)
        if training.state is not None:
            self._state(training, training.state, at)
        training.bad = frozenset(self.broken)

    def _seeds(self, training: Training, version: int, at: Callable[..., tuple[int, ...]], there: bool) -> None:
        if version < OCANNL_SEEDS_VERSION and there:
            self.emit("OCANNL-TRN-SEEDS", at("seeds"), "training.seeds", "seeds", f"none in version {version}")
        elif version >= OCANNL_SEEDS_VERSION and not there:
            self.emit("OCANNL-TRN-SEEDS", at(""), "training", "no seeds", f"seeds, as version {version} has")
        if version < OCANNL_SEEDS_VERSION:
            found = f"{version}, which has no seeds"
            self.emit("OCANNL-TRN-OLD", at("version"), "training.version", found, OCANNL_SEEDS_VERSION)

    def _state(
        self, training: Training, state: tuple[tuple[bytes, int], ...], at: Callable[..., tuple[int, ...]]
    ) -> None:
        if not state:
            self.emit("OCANNL-TRN-EMPTY", at("state"), "training.state", "no tensor", "at least one")
        seen: dict[tuple[bytes, int], int] = {}
        for index, (namespace, number) in enumerate(state):
            where = f"training.state[{index}]"
            if not namespace:
                found = "the empty atom"
                self.emit("OCANNL-TRN-LEGACY", at("state", index, 0), where, found, DEFAULT.decode())
            key = (namespace or DEFAULT, number)
            if key in seen:
                found = f"{named((atom(key[0], ''), number))} again"
                self.emit("OCANNL-TRN-DUP", at("state", index), where, found, f"it once, as at {seen[key]}")
            seen.setdefault(key, index)
        training.state = tuple((namespace or DEFAULT, number) for namespace, number in state)


def _path_of(record: Any, key: str) -> tuple[int, ...]:
    """Return the path from a record to the value of a key; () if the key is not there."""
    name = key.encode()
    return next(
        (
            (index, 1)
            for index, pair in enumerate(record)
            if isinstance(pair, tuple) and len(pair) == 2 and pair[0] == name
        ),
        (),
    )


def _whose(record: Any) -> str:
    """Say which tensor a record is about, if it can be told."""
    if not isinstance(record, tuple):
        return ""
    pairs = {pair[0]: pair[1] for pair in reversed(record) if isinstance(pair, tuple) and len(pair) == 2}
    namespace, number, label = (pairs.get(key) for key in (b"namespace", b"id", b"label"))
    if (
        not isinstance(namespace, bytes)
        or not isinstance(number, bytes)
        or not number.isdigit()
        or len(number) > _DIGITS
    ):
        return ""
    words = [word for word in label if isinstance(word, bytes)] if isinstance(label, tuple) else []
    return said((namespace or DEFAULT, int(number)), words)
