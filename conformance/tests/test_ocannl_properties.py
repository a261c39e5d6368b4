"""Properties of OCANNL's reader, writer and validator that must hold for any document, any layout and any damage.

The encoder is held against the plain one, which shares no code with it; the decoders are in ``test_differential``.
"""

from __future__ import annotations

import contextlib
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ckptspec import CheckpointError, FormatError, Report, neutral, ocannl, sexp, validate
from ckptspec.conformance import strategies
from ckptspec.conformance.catalogue import load_suite
from ckptspec.conformance.strategies_ocannl import damage, damaged_ocannl_files, header_of, ocannl_layouts
from ckptspec.conformance.tests import plain_ocannl_encoder
from ckptspec.ocannl._anatomy import FRAME_SIZE
from ckptspec.sexp import Sexp
from ckptspec.source import BufferSource
from ckptspec.spec.rules import CANONICAL
from ckptspec.text import show

FILES = [
    case.read() for case in load_suite().cases if case.kind == "file" and case.format == "ocannl" and case.size < 20_000
]
SLOW = settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
STRIPPED = b" \t\n\v\f\r"  # what counts as blank at both ends of a header


def decode(data: bytes) -> Any:
    """Return the document, or the error for which the reference refuses the file."""
    try:
        return ocannl.decode(BufferSource(data))
    except FormatError as error:
        return error


def encode_plainly(document: Any) -> bytes:
    """Return the file that the plain encoder makes."""
    header, payloads = plain_ocannl_encoder.encode(document)
    return header + b"".join(bytes(gap) + payload for gap, payload in payloads)


def parts(data: bytes) -> tuple[bytes, bytes]:
    """Return the header's text and the data section."""
    end = FRAME_SIZE + int.from_bytes(data[:FRAME_SIZE], "big")
    return data[FRAME_SIZE:end], data[end:]


def said(data: bytes) -> tuple[Sexp, bytes]:
    """Return what a file says: its header's tree, and its data section."""
    text, rest = parts(data)
    return sexp.parse(text.strip(STRIPPED)), rest


def rules(report: Report) -> set[str]:
    """Return the canonical rules that a file breaks."""
    return {finding.rule for finding in report if finding.severity == CANONICAL}


# --------------------------------------------------------------------------------------------------------- round trips


@SLOW
@given(strategies.ocannl_documents())
def test_document_round_trips(document: dict[str, Any]) -> None:
    assert neutral.parse_json(neutral.dump_json(document)) == document
    data = ocannl.encode(document)
    assert decode(data) == document
    report = validate(data, format="ocannl")
    assert report.ok, report
    assert report.canonical, report
    assert ocannl.to_bytes(ocannl.read(BufferSource(data))) == data


@SLOW
@given(strategies.ocannl_documents())
def test_independent_programs_agree(document: dict[str, Any]) -> None:
    data, plain = ocannl.encode(document), encode_plainly(document)
    assert said(data) == said(plain) == header_of(document)[:2]
    assert decode(plain) == document
    assert validate(plain, format="ocannl").canonical


@SLOW
@given(ocannl_layouts())
def test_layout_changes_nothing(made: tuple[dict[str, Any], bytes, set[str]]) -> None:
    document, data, asked = made
    assert decode(data) == document
    report = validate(data, format="ocannl")
    assert rules(report) == asked
    for finding in report:
        there = data[finding.offset : finding.offset + finding.length]
        if finding.rule == "OCANNL-REC-SPELLING":
            value = sexp.parse(there)
            assert show(value) == finding.found
        elif finding.rule == "OCANNL-REC-UNKNOWN":
            pair = sexp.parse(there)
            assert finding.found == f"the key {show(pair[0])}"
        elif finding.rule in ("OCANNL-TEN-LEGACY", "OCANNL-TRN-LEGACY"):
            assert sexp.parse(there) == b""


# -------------------------------------------------------------------------------------------------------------- damage


def check_file(data: bytes) -> None:
    """Assert all that must hold for any bytes."""
    source = BufferSource(data)
    found = decode(data)
    report = validate(data, format="ocannl")
    if isinstance(found, FormatError):
        assert found.finding == report.first
    else:
        assert report.ok, report
        check_accepted(data, found, report)
    ocannl.inspect(source)
    check_regions(data, report)
    for intact_only in (False, True):
        with contextlib.suppress(FormatError):
            checkpoint, _, _ = ocannl.salvage(source, intact_only)
            assert validate(ocannl.to_bytes(checkpoint), format="ocannl").canonical


def check_accepted(data: bytes, document: Any, report: Report) -> None:
    """Assert that a file is canonical exactly when writing its document gives the same, up to the header's layout."""
    again = ocannl.encode(document)
    assert decode(again) == document
    assert validate(again, format="ocannl").canonical
    aligned = (len(data) - len(parts(data)[1])) % document["alignment"] == 0
    equal = aligned and said(again) == said(data)
    assert equal == (rules(report) <= {"OCANNL-TXT-BLANKS"}), report


def check_regions(data: bytes, report: Report) -> None:
    """Assert that regions are in order and reach to the end, and in a sound file, that no byte is in two of them."""
    at = start = 0
    for region in ocannl.regions(BufferSource(data)):
        assert region.offset >= start
        start = region.offset
        assert region.offset == at or not report.ok or not region.size, region
        at = max(at, region.offset + region.size)
    assert at == len(data) or len(data) < FRAME_SIZE


@settings(SLOW, max_examples=400)
@given(damaged_ocannl_files())
@example(b"\0\0\0\x15#|x|#                ")
@example(b"\0\0\0\x14#;()((a b) (c d))   ")
def test_any_damage(data: bytes) -> None:
    check_file(data)


@settings(SLOW, max_examples=300)
@given(st.sampled_from(FILES), st.randoms(use_true_random=True))
def test_any_damage_to_golden_files(data: bytes, random: Any) -> None:
    check_file(damage(random, data))


@settings(SLOW, max_examples=100)
@given(ocannl_layouts(), st.data())
def test_every_truncation_of_a_header_is_refused(
    made: tuple[dict[str, Any], bytes, set[str]], draw: st.DataObject
) -> None:
    data = made[1]
    cut = data[: draw.draw(st.integers(0, len(data) - len(parts(data)[1]) - 1))]
    assert isinstance(decode(cut), FormatError)
    check_file(cut)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=100), st.booleans())
def test_arbitrary_bytes(data: bytes, framed: bool) -> None:
    check_file(len(data).to_bytes(FRAME_SIZE, "big") + data if framed else data)


# ---------------------------------------------------------------------------------------------------- hostile documents


def _json() -> st.SearchStrategy[Any]:
    leaves: st.SearchStrategy[Any] = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
    odd = st.sampled_from([10**300, "\ud800", [[]] * 3, {1: 2}, float("nan"), "9" * 400, "01", "-1", {"bytes": "61"}])
    return st.recursive(leaves | odd, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5)


@settings(SLOW, max_examples=300)
@given(strategies.ocannl_documents(), st.data())
def test_encoders_agree_about_spoiled_documents(document: dict[str, Any], data: st.DataObject) -> None:
    """Any part of a good document is replaced by anything, or lost."""
    strategies.spoil(document, data, _json())
    made = plain = None
    with contextlib.suppress(CheckpointError):
        made = ocannl.encode(document)
    with contextlib.suppress(plain_ocannl_encoder.Refused):
        plain = encode_plainly(document)
    assert (made and said(made)) == (plain and said(plain))
    if made is not None:
        assert validate(made, format="ocannl").canonical
