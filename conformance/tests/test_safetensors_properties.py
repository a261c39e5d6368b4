"""Properties of safetensors files that must hold for any content, any spelling of a header and any damage.

The writer is held against the official package; the readers are in ``test_differential``.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
from random import Random
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ckptspec import CheckpointError, FormatError, Report, decode, encode, loads, neutral, safetensors, validate
from ckptspec.conformance import strategies_safetensors as strategies
from ckptspec.conformance.cases.safetensors.assemble import T, file, sound
from ckptspec.conformance.catalogue import Case, load_suite
from ckptspec.conformance.strategies_trees import leaves
from ckptspec.examination import Examination
from ckptspec.formats import module_of
from ckptspec.safetensors import _examine
from ckptspec.source import BufferSource
from ckptspec.spec.dtypes import SAFETENSORS_DTYPES, SAFETENSORS_ORDER

try:
    official: Any = importlib.import_module("safetensors")
except ImportError:
    official = None

needs_official = pytest.mark.skipif(official is None, reason="the official package is not installed")

Document = dict[str, Any]
MODULE = module_of("safetensors")
CASES = [case for case in load_suite().cases if case.format == "safetensors" and case.kind == "file"]
SLOW = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
MANY = settings(SLOW, max_examples=250)
FEW = settings(SLOW, max_examples=50)


def decoded(data: bytes) -> Document | None:
    """Return the document, or None for a file that is refused; validating and reading must agree."""
    report = MODULE.validate(BufferSource(data))
    if report.ok:
        return MODULE.decode(BufferSource(data))
    with pytest.raises(FormatError) as caught:
        MODULE.decode(BufferSource(data))
    assert report.first == caught.value.finding
    assert 0 <= caught.value.offset <= len(data)
    return None


def officially(data: bytes) -> tuple[list[Document] | None, str]:
    """Return the tensors as the official package sees them, or why it refuses the file."""
    try:
        tensors = official.deserialize(data)
    except official.SafetensorError as error:
        return None, str(error)
    made = [
        {"name": name, "dtype": item["dtype"], "shape": list(map(str, item["shape"])), "data": item["data"].hex()}
        for name, item in tensors
    ]
    return sorted(made, key=lambda tensor: tensor["name"].encode()), ""


# ------------------------------------------------------------------------------------------------------- round trips


@SLOW
@given(strategies.safetensors_documents())
def test_document_round_trips(document: Document) -> None:
    text = neutral.dump_json(document)
    assert neutral.parse_json(text) == document
    data = encode(document)
    assert decoded(data) == decode(data) == document
    assert validate(data).canonical
    assert encode(decode(data)) == data
    assert safetensors.dumps(safetensors.loads(data)) == data


@FEW
@given(strategies.safetensors_documents())
def test_writer_agrees_with_an_independent_layout(document: Document) -> None:
    """The assembler of the case definitions lays files out by itself."""
    items = [
        T(
            name=tensor["name"],
            dtype=tensor["dtype"],
            shape=tuple(map(int, tensor["shape"])),
            data=bytes.fromhex(tensor["data"]),
        )
        for tensor in document["tensors"]
    ]
    metadata = document["metadata"]
    if metadata is not None:
        metadata = dict(sorted(metadata.items(), key=lambda pair: pair[0].encode()))
    assert encode(document) == file(*sound(*items), metadata=metadata)


# What the official package calls the dtypes that it can write; F4 comes as pairs of elements.
WRITABLE = {
    "BOOL": "bool",
    **{f"I{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"U{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{name: f"float{name[1:]}" for name in ("F16", "F32", "F64")},
    "BF16": "bfloat16",
    "C64": "complex64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F4": "float4_e2m1fn_x2",
}


def official_file(document: Document) -> bytes:
    """Return the file that the official package writes."""
    specs, kept = {}, []
    for tensor in document["tensors"]:
        shape = list(map(int, tensor["shape"]))
        if tensor["dtype"] == "F4":
            shape[-1] //= 2
        kept.append(np.frombuffer(bytes.fromhex(tensor["data"]) or b"\0", np.uint8))
        specs[tensor["name"]] = official.TensorSpec(
            dtype=WRITABLE[tensor["dtype"]],
            shape=shape,
            data_ptr=kept[-1].ctypes.data,
            data_len=len(tensor["data"]) // 2,
        )
    return bytes(official.serialize(specs, document["metadata"]))


def can_be_written(document: Document) -> bool:
    """Whether the official package can write a document, and always in the same way.

    It knows no name for F6 types, writes metadata of several keys in any order, writes something else where there is
    metadata and no tensor, and halves the last extent of F4.
    """
    return (
        len(document["metadata"] or ()) <= 1
        and bool(document["tensors"] or document["metadata"] is None)
        and all(tensor["dtype"] in WRITABLE for tensor in document["tensors"])
        and all(tensor["dtype"] != "F4" or int(tensor["shape"][-1]) % 2 == 0 for tensor in document["tensors"])
    )


@needs_official
@SLOW
@given(strategies.safetensors_documents().filter(can_be_written))
def test_official_writer_gives_the_same_bytes(document: Document) -> None:
    assert encode(document) == official_file(document)


@needs_official
def test_official_writer_has_our_order_of_dtypes() -> None:
    """Names in the reverse order of dtypes, so that dtypes count first."""
    names = [name for name in SAFETENSORS_ORDER if name in WRITABLE]
    assert set(SAFETENSORS_DTYPES) - set(names) == {"F6_E2M3", "F6_E3M2"}
    tensors = [
        {"name": f"t{at:02}", "dtype": name, "shape": ["2"], "data": "01" * (SAFETENSORS_DTYPES[name].bits // 4)}
        for at, name in enumerate(reversed(names))
    ]
    document = {"format": "safetensors", "metadata": {"é\n": "\x7f/"}, "tensors": tensors}
    data = official_file(document)
    assert data == encode(document)
    assert list(safetensors.loads(data).tensors) == [f"t{at:02}" for at in reversed(range(len(names)))]


@needs_official
@SLOW
@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), leaves(), min_size=1, max_size=4))
def test_arrays_go_both_ways(arrays: dict[str, Any]) -> None:
    data = safetensors.dumps(arrays)
    seen, why = officially(data)
    assert seen is not None, why
    assert seen == decode(data)["tensors"]
    contiguous = {name: np.asarray(array, array.dtype.newbyteorder("<"), order="C") for name, array in arrays.items()}
    official_numpy: Any = importlib.import_module("safetensors.numpy")

    # It cannot write rank 0 of types that numpy lacks, nor find out the byte order of those.
    if all(array.dtype.kind in "fiubc" for array in contiguous.values()):
        written = official_numpy.save(contiguous)
        assert written == data
        for name, array in safetensors.loads(written).tensors.items():
            assert array.dtype == contiguous[name].dtype
            assert array.shape == contiguous[name].shape
            assert array.tobytes() == contiguous[name].tobytes()


# ------------------------------------------------------------------------------------------------- spellings, damage


def exactly(data: bytes) -> tuple[Document | None, Report]:
    """Return what reading and validation make of a file if there is no fast way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_examine, "_plain", lambda *_: False)
        return decoded(data), MODULE.validate(BufferSource(data))


@SLOW
@given(strategies.safetensors_layouts())
def test_any_spelling_is_read(layout: tuple[Document, bytes]) -> None:
    document, data = layout
    assert decoded(data) == document
    report = validate(data)
    assert (encode(document) == data) == report.canonical
    assert exactly(data) == (document, report)


@MANY
@given(strategies.damaged_safetensors_files())
def test_any_damage(data: bytes) -> None:
    document, report = decoded(data), MODULE.validate(BufferSource(data))
    assert exactly(data) == (document, report)
    if document is not None:
        assert (encode(document) == data) == report.canonical
        assert decode(encode(document)) == document
    check_parts(data, document)


def check_parts(data: bytes, document: Document | None) -> None:
    """Regions name every byte in order, and what is salvaged is a good file."""
    source = BufferSource(data)
    MODULE.inspect(source)
    at = 0
    for region in MODULE.regions(source):
        assert 0 <= region.offset <= region.offset + region.size <= len(data)
        assert region.offset <= at, "a byte without a name"
        assert document is None or region.offset == at
        at = max(at, region.offset + region.size)
    assert at == len(data) or len(data) < 8
    for intact_only in (False, True):
        try:
            model, survivors, _ = MODULE.salvage(source, intact_only)
        except FormatError:
            assert document is None
            continue
        made = MODULE.to_bytes(model)
        assert validate(made).canonical
        assert len(model.tensors) == sum(item.what == "tensor" and item.state != "lost" for item in survivors)
        assert document is None or decode(made) == document


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_parts_of_each_case(case: Case) -> None:
    expected = case.read_expected()
    check_parts(case.read(), None if "error" in expected else expected)


@MANY
@given(st.binary(max_size=200) | st.binary(max_size=60).map(lambda tail: bytes([len(tail)]) + bytes(7) + b"{" + tail))
def test_arbitrary_bytes(data: bytes) -> None:
    check_parts(data, decoded(data))
    with contextlib.suppress(CheckpointError):
        loads(data)
    validate(data)


@FEW
@given(strategies.safetensors_layouts(), st.data())
def test_every_truncation_is_refused(layout: tuple[Document, bytes], data: st.DataObject) -> None:
    whole = layout[1]
    for size in (len(whole) - 1, data.draw(st.integers(0, len(whole) - 1))):
        assert decoded(whole[:size]) is None


@MANY
@given(strategies.extreme_safetensors_files())
def test_extreme_numbers(data: bytes) -> None:
    assert exactly(data) == (decoded(data), MODULE.validate(BufferSource(data)))


def test_fast_way_reads_what_is_plain() -> None:
    """Or else all of this would compare the exact way with itself."""
    for case in CASES:
        if case.canonical and "note" not in case.tags:
            source = BufferSource(case.read())
            has_bool = any(tensor["dtype"] == "BOOL" for tensor in case.read_expected()["tensors"])
            for report in (None,) if has_bool else (None, Report()):  # a validator looks at their values
                exam = Examination(source, report)
                anatomy = _examine._frame(exam)
                _examine._text(exam, anatomy)
                odd = b'" ' in anatomy.text or b'\\"' in anatomy.text  # then it cannot count keys, and gives up
                assert odd or _examine._plain(exam, anatomy), case.id


# ------------------------------------------------------------------------------------------------- spoiled documents


def _json() -> st.SearchStrategy[Any]:
    odd: st.SearchStrategy[Any] = st.sampled_from(
        [10**300, "\ud800", [[]] * 3, {1: 2}, float("nan"), "9" * 400, "0F", "01", "-1", b"", None]
    )
    return st.recursive(
        odd | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=4
    )


@FEW
@given(strategies.safetensors_documents(), st.integers(0, 1 << 32), _json())
def test_nothing_but_argument_errors_for_spoiled_documents(document: Document, seed: int, value: Any) -> None:
    """Any part of a good document is replaced by anything, or lost."""
    random = Random(seed)
    at: Any = document
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            break
        key = random.choice(keys)
        if isinstance(at[key], (dict, list)) and at[key] and random.random() < 0.7:
            at = at[key]
            continue
        if random.random() < 0.8:
            at[key] = value
        else:
            del at[key]
        break
    with contextlib.suppress(CheckpointError):
        assert validate(encode(document)).ok


def test_dtypes_of_ml_dtypes_are_all_known() -> None:
    """Of the one-byte floats of ml_dtypes, exactly those are written that the format has."""
    known = {scalar.numpy for scalar in SAFETENSORS_DTYPES.values()}
    for name in itertools.chain(("bfloat16",), filter(lambda name: name.startswith("float8"), dir(ml_dtypes))):
        array = np.zeros(2, getattr(ml_dtypes, name))
        if name in known:
            assert validate(safetensors.dumps({"w": array})).canonical
        else:
            with pytest.raises(CheckpointError):
                safetensors.dumps({"w": array})
