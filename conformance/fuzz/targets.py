"""The targets: what is done with an input, and what must hold, whatever its bytes. One table.

A target may raise the errors that its row allows and no other. Where a file is good, what is made of it is looked at,
too: each way through the library must come to the same content.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from ... import convert, decode, encode, kaun, loads, neutral, nuvec, oam, sexp, validate
from ...cli import looking
from ...compare import compare
from ...contents import contents_of
from ...digest import digest, manifest_of, parse_manifest
from ...errors import ArgumentError, FormatError
from ...findings import Report
from ...formats import FORMATS, module_for, module_of, recognise
from ...html.inspection import inspection
from ...source import BufferSource
from ...spec.rules import RULES
from ...spec.schema import OAM_NEWEST
from ...terminal import Style
from .subjects import Subject, captured, require

__all__ = ["TARGETS", "Target", "targets_of"]

Document = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is done with an input of some kinds.

    ``allowed`` are the errors that may come out, besides what ``doc`` says must hold. ``factor`` is how many times as
    much per byte the target may take as the limits say: it prints or reads things several times.
    """

    name: str
    kinds: tuple[str, ...]
    check: Callable[[Subject], object]
    doc: str
    allowed: tuple[type[Exception], ...] = ()
    factor: float = 1

    def run(self, subject: Subject) -> None:
        """Try an input. Raises what must not come out, and Violation for what does not hold."""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", kaun.SkippedTensorsWarning)
            with suppress(*self.allowed):
                self.check(subject)


# ---------------------------------------------------------------------------------------------------- decode, validate


def _newest(document: Document) -> Document:
    """Return a document as a writer writes it unless told otherwise."""
    return {**document, "version": OAM_NEWEST} if document["format"] == "oam" else document


def _decode(subject: Subject) -> None:
    refusal = subject.refusal()
    first = subject.report.first
    require((first is None) == (refusal is None), f"validation says {first}, reading {refusal}")
    require(refusal is None or refusal.finding == first, f"validation says {first}, reading {refusal}")
    with suppress(FormatError):
        subject.module.read(subject.source(), verify=False)
    with suppress(FormatError):
        loads(subject.data)
    if refusal is not None:
        with _refused(refusal):
            subject.document  # noqa: B018  # made for its error
        return
    text = neutral.dump_json(subject.document)
    require(neutral.parse_json(text) == subject.document, "the document is another one after JSON")
    made = encode(subject.document)
    require(subject.module.decode(BufferSource(made)) == subject.document, "encoding and decoding changes the document")


def _validate(subject: Subject) -> None:
    report = subject.report
    again = subject.module.validate(subject.source())
    require(report.to_json() == again.to_json(), "a second validation gives another report")
    for finding in report:
        require(finding.rule in RULES, f"no such rule: {finding.rule}")
        inside = 0 <= finding.offset <= finding.offset + finding.length <= len(subject.data)
        require(inside, f"bytes {finding.offset} + {finding.length} of {len(subject.data)}: {finding}")
        require(str(finding).isprintable(), f"a message that disturbs: {str(finding)!a}")
    validate(subject.data)
    with captured() as printed:
        looking.print_report(report, Style(printed), quiet=False, strict=False)
        print(json.dumps(report.to_json(), ensure_ascii=True, allow_nan=False))
    printed.check()
    if report.ok:
        made = subject.module.encode(_newest(subject.document))
        _check_canonical(module_report(subject.kind, made), "what encoding makes")
        if subject.kind != "ocannl":  # whose headers may be laid out otherwise
            require(report.canonical == (made == subject.data), f"canonical is {report.canonical}")
        elif made == subject.data:
            require(report.canonical, "what encoding makes is not canonical")


def module_report(format: str, data: bytes) -> Report:
    """Return the report on a file of a format."""
    return module_of(format).validate(BufferSource(data))


def _check_canonical(report: Report, what: str) -> None:
    require(report.canonical, f"{what} is not canonical: {report}")


@contextmanager
def _refused(expected: FormatError) -> Iterator[None]:
    """Violation unless the block refuses the file as ``expected`` does."""
    try:
        yield
    except FormatError as error:
        require(error.finding == expected.finding, f"found {error}, expected {expected}")
    else:
        require(False, f"expected {expected}")


# --------------------------------------------------------------------------------------------------- salvage, rewrite


def _salvage(subject: Subject) -> None:
    for intact_only in (False, True):
        model, survivors, report = subject.module.salvage(subject.source(), intact_only)
        require(report.findings == subject.report.findings, "salvage finds other things than validation")
        made = subject.module.to_bytes(model)
        _check_canonical(module_report(subject.kind, made), "what was salvaged")
        require(all(json.dumps(item.to_json()) for item in survivors), "what survives is no JSON")
        if subject.report.ok:
            same = subject.module.decode(BufferSource(made)) == _newest(subject.document)
            require(same, "salvaging a good file changes it")


def _rewrite(subject: Subject) -> None:
    module = subject.module
    made = module.to_bytes(subject.model)
    _check_canonical(module_report(subject.kind, made), "what was rewritten")
    require(module.to_bytes(module.read(BufferSource(made))) == made, "rewriting again gives another file")
    require(made == module.encode(_newest(subject.document)), "rewriting and encoding differ")


# ------------------------------------------------------------------------------------------------------------- inspect


def _inspect(subject: Subject) -> None:
    end = 0
    for region in subject.module.regions(subject.source()):
        require(region.offset >= 0 and region.size >= 0, f"{region}")
        require(region.offset + region.size <= len(subject.data), f"beyond the end: {region}")
        if subject.report.ok and region.size:
            require(region.offset == end, f"the bytes from {end} on have no meaning before {region}")
            end = region.offset + region.size
    if subject.report.ok:
        require(end == len(subject.data), f"the bytes from {end} on have no meaning")
    known = recognise(subject.source())
    for as_hex, as_json in ((False, False), (True, False), (True, True)):
        verb = argparse.Namespace(
            file="-", hex=as_hex, json=as_json, only="", html=None, no_values=False, structure_only=False
        )
        with captured(subject.data) as printed:
            status = looking.inspect(verb)
        printed.check()
        if known == subject.kind:
            require(status == (0 if subject.report.ok else 1), f"exit status {status}")
        if as_json:
            json.loads(printed.getvalue())


_TAGS: Final = ("<script", "</script", "<style", "<!--")


def _page(subject: Subject) -> None:
    for values in (True, False):
        text, _ = inspection(subject.source(), values=values)
        for tag, number in _own_tags().items():
            require(text.lower().count(tag) == number, f"{tag} comes out of the file")


@cache
def _own_tags() -> dict[str, int]:
    """Return how often the tags stand in a page about nothing."""
    text = inspection(BufferSource(b"", "input"))[0].lower()
    return {tag: text.count(tag) for tag in _TAGS}


# ---------------------------------------------------------------------------------------------------- convert, compare


def _convert(subject: Subject) -> None:
    if recognise(subject.source()) != subject.kind:
        return
    for target in FORMATS:
        with suppress(ArgumentError):  # what the format cannot hold at all
            plan = convert.plan(subject.source(), to=target)
            json.dumps(plan.conversion.to_json())
            made = plan.to_bytes(lossy=True)
            _check_canonical(module_report(target, made), f"what was converted to {target}")
            if not plan.conversion.lossless:
                continue
            require(plan.to_bytes() == made, "not the same twice")
            back = convert.plan(made, to=plan.conversion.original_format)
            if plan.conversion.kind == "carry":
                require(back.conversion.lossless, f"the way back loses {back.conversion.losses}")
                same = decode(back.to_bytes()) == subject.document
                require(same, f"there and back by {target} changes the document")


def _digest(subject: Subject) -> None:
    if recognise(subject.source()) != subject.kind:
        return
    here = contents_of(subject.source())
    made = digest(here)
    text = json.dumps(manifest_of(made)).encode()
    require(manifest_of(parse_manifest(text)) == manifest_of(made), "the manifest is another one after JSON")
    if not subject.report.ok:  # its checksums are not looked at
        return
    module = subject.module
    there = contents_of(BufferSource(module.to_bytes(subject.model)))
    require(digest(there) == made, "the digest depends on the layout")
    found = compare(here, there)
    require(not found.differ, "a file differs from what it is rewritten to")


# --------------------------------------------------------------------------------------------------- one format's own


def _kaun(subject: Subject) -> None:
    checkpoint = kaun.loads(subject.data)
    made = checkpoint.dumps()
    again = kaun.loads(made)
    require(again.names == checkpoint.names, "other names after saving")
    require(again.dumps() == made, "another file after saving")


def _nuvec(subject: Subject) -> None:
    if "" in subject.model.tensors:
        return  # no checkpoint of Kaun's, which is taken for a tree of what numpy can represent
    checkpoint = kaun.loads(subject.data)
    if len(checkpoint) < len(subject.model.tensors):
        return
    tree = nuvec.loads_into(subject.data, {name: checkpoint.get(name) for name in checkpoint})
    with suppress(ArgumentError):  # a scalar called `step` may be one that metadata cannot tell
        made = nuvec.dumps(tree)
        require(nuvec.dumps(nuvec.loads_into(made, dict(tree))) == made, "another file after saving")


def _quantize(subject: Subject) -> None:
    for encoding in ("q4", "q8"):
        model = oam.quantize(subject.model, encoding)
        _check_canonical(module_report("oam", oam.dumps(model)), "what was quantized")


# ----------------------------------------------------------------------------------------------------------- other text

_DEPTH: Final = 20


def _sexp(subject: Subject) -> None:
    data = subject.data
    found: list[Any] = []
    for parse in (sexp.parse, sexp.parse_nodes, lambda text: sexp.outline(text, 2)):
        try:
            found.append(parse(data))
        except sexp.SexpError as error:
            found.append(error)
            require(0 <= error.offset <= len(data), f"offset {error.offset}")
    bad = [item for item in found if isinstance(item, sexp.SexpError)]
    require(len({str(item) for item in bad}) <= 1 and len(bad) in (0, len(found)), f"the readings differ: {bad}")
    with suppress(sexp.SexpError):
        value, end = sexp.parse_prefix(data)
        require(0 < end <= len(data), f"ends at {end}")
        require(sexp.parse(sexp.dump(value)) == value, "another value after writing")
    with suppress(sexp.SexpError):
        sexp.parse(data, max_depth=_DEPTH)
    records: list[Any] = []
    try:
        records.extend(sexp.parse_records(data))
    except sexp.SexpError:
        require(bad, "records are refused where the whole is not")
    else:
        require(not bad, f"records are accepted where the whole is not: {bad}")
    if not bad:
        require(sexp.parse(sexp.dump(found[0])) == found[0], "another value after writing")


def _document(subject: Subject) -> None:
    document = neutral.parse_json(subject.data)
    made = encode(document)
    report = validate(made)
    require(report.ok, f"an encoder makes what a reader refuses: {report}")
    module = module_of(document["format"])
    if module is module_of("safetensors"):  # files keep no order of the tensors
        document["tensors"].sort(key=lambda row: row["name"].encode())
    require(module.decode(BufferSource(made)) == document, "decoding gives another document")
    require(module_for(loads(made)) is module, "another format is recognised")


_ALL: Final = tuple(FORMATS)

_LATER: Final = (FormatError,)  # for a bad file, at which the decode target has looked already

TARGETS: Final = (
    Target(
        name="decode",
        kinds=_ALL,
        check=_decode,
        doc="Reading refuses a file exactly if validation does, for its first finding; the document survives JSON, and "
        "encoding it gives a file with the same document.",
    ),
    Target(
        name="validate",
        kinds=_ALL,
        check=_validate,
        factor=3,
        doc="Any bytes give a report, the same again the second time, whose findings lie within the file and can be "
        "shown; a file is canonical exactly if encoding its document gives its bytes.",
    ),
    Target(
        name="salvage",
        kinds=_ALL,
        check=_salvage,
        allowed=_LATER,
        doc="What is salvaged is a canonical file; of a good file, all of it.",
    ),
    Target(
        name="rewrite",
        kinds=_ALL,
        check=_rewrite,
        allowed=_LATER,
        doc="`canonicalize`: the file is canonical, is what encoding the document gives, and stays the same when it is "
        "rewritten.",
    ),
    Target(
        name="inspect",
        kinds=_ALL,
        check=_inspect,
        factor=8,
        doc="Parts, bytes and JSON of any file are printed, in characters that disturb no terminal; regions lie within "
        "the file, those of a good one cover each byte once.",
    ),
    Target(
        name="page",
        kinds=_ALL,
        check=_page,
        factor=4,
        doc="Any file has an HTML page, and brings no element of its own into it.",
    ),
    Target(
        name="convert",
        kinds=_ALL,
        check=_convert,
        allowed=_LATER,
        factor=2,
        doc="To each format: refused with what would be lost, or a canonical file; if nothing is lost, the way back "
        "gives the document again.",
    ),
    Target(
        name="digest",
        kinds=_ALL,
        check=_digest,
        allowed=_LATER,
        doc="`digest` and `diff`: a file and what it is rewritten to have one digest and do not differ; a manifest "
        "survives JSON.",
    ),
    Target(
        name="quantize",
        kinds=("oam",),
        check=_quantize,
        allowed=(FormatError, ArgumentError),
        doc="Refused, or a canonical file.",
    ),
    Target(
        name="kaun",
        kinds=("safetensors",),
        check=_kaun,
        allowed=_LATER,
        doc="A checkpoint is loaded with the names of the file, and saved to the same bytes each time.",
    ),
    Target(
        name="nuvec",
        kinds=("safetensors",),
        check=_nuvec,
        allowed=_LATER,
        doc="A tree is loaded from the file, and saved to the same bytes each time.",
    ),
    Target(
        name="sexp",
        kinds=("sexp",),
        check=_sexp,
        doc="All readings of an S-expression agree, on the value or on the fault; what is written reads the same.",
    ),
    Target(
        name="document",
        kinds=("document",),
        check=_document,
        allowed=(ArgumentError,),
        doc="A document is refused by ArgumentError, or encoding it gives a file that readers accept, with the same "
        "document.",
    ),
)


def targets_of(kind: str) -> list[Target]:
    """Return the targets of a kind."""
    return [target for target in TARGETS if kind in target.kinds]
