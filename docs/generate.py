"""Writes what the pages of the documentation derive from the specification.

A page is written by hand but for its blocks. A block stands between ``<!-- generated: NAME ARGUMENT ... -->`` and
``<!-- end -->``, on lines of their own or within a line; ``BLOCKS`` has a function for each name, which returns the
text in between. So no offset, limit or requirement is typed twice.

``python docs/generate.py`` rewrites the blocks of all pages; with ``--check`` it changes nothing, and fails if one of
them is not what it should be.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from sitegen import blocks as more
from sitegen.clauses import anchor, cases_of, clause_anchor
from sitegen.clauses import cases as all_cases
from sitegen.markdown import code, fence, grouped, plural, prose, table
from sitegen.pictures import pictures

import ckptspec
from ckptspec import sexp
from ckptspec.cli import build_parser
from ckptspec.conformance.catalogue import Case
from ckptspec.formats import FORMATS, module_of
from ckptspec.regions import Region
from ckptspec.source import BufferSource
from ckptspec.spec import schema
from ckptspec.spec.dtypes import OAM_BY_CODE, OCANNL_PRECISIONS, SAFETENSORS_DTYPES, SAFETENSORS_ORDER
from ckptspec.spec.layout import Field, fields, record_size
from ckptspec.spec.rules import CANONICAL, NOTE, REJECT, UPSTREAM, Rule, rules_of

ROOT: Final = Path(__file__).resolve().parent.parent
PAGES: Final = ("README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")))

PICTURES: Final = "docs/formats/pictures"

_BLOCK: Final = re.compile(r"(?<!`)<!-- generated: (?P<call>[^\n]+?) -->(?P<body>.*?)<!-- end -->", re.DOTALL)
_ROW: Final = {"oam": 8, "ocannl": 16, "safetensors": 16}  # bytes on a line of a walk
_FRAMES: Final = {"ocannl": (schema.OcannlFrame, "lisp"), "safetensors": (schema.SafetensorsFrame, "json")}
_SHOWN: Final = 8  # lines of a stretch of one kind in a walk
_UNPUBLISHED: Final = "OCANNL does not publish"  # how the sentence begins where upstream has nothing to differ from


# --------------------------------------------------------------------------------------------------------------- schema


def _default(field: Field) -> str:
    """Return the value that a writer gives a field unless told otherwise; nothing where it has to know."""
    value: Any = field.default
    if value is None:
        return ""
    if field.role == "f32":
        return str(np.array([value], np.uint32).view(np.float32)[0])
    if isinstance(value, bytes):
        return code(value.decode()) if field.role == "text" and value else "zeros" if not any(value) else _hex(value)
    if isinstance(value, list):
        return "zeros"
    return str(value)


def _hex(data: bytes) -> str:
    return code(data.hex(" "))


def layout(record: str) -> str:
    """Return the fields of a binary record of the schema."""
    struct = getattr(schema, record)
    rows = [
        [
            str(field.offset),
            str(field.size),
            code(field.type + (f"[{field.count}]" if field.count else "")),
            code(field.name),
            _default(field),
            field.doc,
        ]
        for field in fields(struct)
    ]
    rows.append([str(record_size(struct)), "", "", "", "", "*end of the record*"])
    return table(("offset", "size", "type", "field", "default", "meaning"), rows, right=(0, 1))


def keys(record: str) -> str:
    """Return the pairs of a record of text."""
    rows = [
        [
            code(key.name),
            schema.VALUE_KINDS[key.kind],
            "" if key.least is None else str(key.least),
            "optional" if key.optional else "mandatory",
            key.doc,
        ]
        for key in getattr(schema, record)
    ]
    return table(("key", "value", "least", "", "meaning"), rows)


def dtypes() -> str:
    """Return the table of ``.oam`` dtypes."""
    rows = [[str(number), code(item.name), str(item.size), item.doc] for number, item in sorted(OAM_BY_CODE.items())]
    return table(("code", "dtype", "bytes", "meaning"), rows, right=(0, 2))


def precisions() -> str:
    """Return the table of OCANNL's precisions."""
    rows = [
        [code(name.capitalize() + schema.OCANNL_PRECISION_SUFFIX), code(name), str(item.size), item.doc]
        for name, item in OCANNL_PRECISIONS.items()
    ]
    return table(("in the header", "in documents and in Python", "bytes", "meaning"), rows, right=(2,))


def safetensors_dtypes() -> str:
    """Return the table of dtypes of safetensors files, in the order in which a writer places them."""
    rows = []
    for name in SAFETENSORS_ORDER:
        item = SAFETENSORS_DTYPES[name]
        array = code(item.numpy.lstrip("<")) if item.numpy else "none: `Tensor`, with its bytes"
        rows.append([code(name), str(item.bits), array, item.doc])
    return table(("dtype", "bits", "in numpy or ml_dtypes", "meaning"), rows, right=(1,))


def sections() -> str:
    """Return the table of section types of ``.oam`` files."""
    rows = []
    for name, number in schema.OAM_SECTIONS.items():
        there = "required" if name in schema.OAM_REQUIRED else "never written" if name == "legacy" else "optional"
        rows.append([str(number), name, there])
    return table(("type", "section", ""), rows, right=(0,))


def optimizers() -> str:
    """Return the table of the optimizer's kinds."""
    rows = [[code(kind), str(moments)] for kind, moments in schema.OAM_OPTIMIZERS.items()]
    return table(("kind", "moments"), rows, right=(1,))


def quantized() -> str:
    """Return the table of block encodings."""
    block = schema.OAM_QUANT_BLOCK
    rows = []
    for name, encoding in schema.OAM_BLOCK_ENCODINGS.items():
        sizes = (schema.OAM_ENCODINGS[name], block, encoding.code_bytes, encoding.scale_bytes, encoding.block_bytes)
        rows.append([code(name), *map(str, sizes)])
    head = ("encoding", "code", "elements in a block", "bytes of elements", "bytes of its scale", "together")
    return table(head, rows, right=(1, 2, 3, 4, 5))


def value(name: str, base: str = "") -> str:
    """Return a constant of the schema; ``base`` is ``hex`` for one that is shown so."""
    number = getattr(schema, name)
    return f"{number:#x}" if base == "hex" else grouped(number)


# ---------------------------------------------------------------------------------------------------------------- rules


def link(rule: str) -> str:
    """Return a link to a rule on the same page."""
    return f"[{rule}](#{anchor(rule)})"


def sentence_of(rule: Rule) -> str:
    """Return a rule's sentence with its key words in bold letters."""
    return re.sub(r"\b(MUST NOT|MUST|SHOULD NOT|SHOULD)\b", r"**\1**", prose(rule.sentence))


def rule_entry(rule: Rule, *, counted: bool = True) -> str:
    """Return a rule's entry; ``counted`` says how many cases it has, for pages that do not list them."""
    facts = [rule.kind]
    if rule.versions:
        facts.append(f"version{'s' if len(rule.versions) > 1 else ''} {', '.join(map(str, rule.versions))}")
    if counted:
        facts.append(plural(len(cases_of(rule)), "case"))
    lines = [f"#### {rule.id}", "", sentence_of(rule), "", f"- *Rule:* {'; '.join(facts)}."]
    if rule.reason:
        lines.append(f"- *Why:* {prose(rule.reason)}")
    if rule.upstream:
        lines.append(f"- *Upstream:* {prose(rule.upstream)}")
    if rule.implies:
        lines.append(f"- *Implies:* {', '.join(map(link, rule.implies))}.")
    return "\n".join(lines)


def rules(format: str, clause: str) -> str:
    """Return the rules of a clause."""
    chosen = [rule for rule in rules_of(format) if rule.clause == clause]
    if not chosen:
        raise KeyError(f"no rule of {format} belongs to the clause {clause}")
    return "\n\n".join((f'<a id="{clause_anchor(chosen[0])}"></a>', *map(rule_entry, chosen)))


def index(format: str, kind: str) -> str:
    """Return links to all rules of a kind."""
    return ", ".join(link(rule.id) for rule in rules_of(format, kind)) + "."


def differences(format: str) -> str:
    """Return the rules for whose sake a reader refuses a file, and upstream does otherwise or says nothing."""
    chosen = [rule for rule in rules_of(format, REJECT) if rule.upstream and not rule.upstream.startswith(_UNPUBLISHED)]
    return table(("refused here", "upstream"), [[link(rule.id), prose(rule.upstream)] for rule in chosen])


def rewriting(format: str) -> str:
    """Return the rules for writers of which upstream has something to tell."""
    chosen = [rule for rule in rules_of(format, CANONICAL) if rule.upstream]
    told: dict[str, list[str]] = {}
    for rule in chosen:
        if not rule.upstream.startswith(_UNPUBLISHED):
            told.setdefault(prose(rule.upstream), []).append(link(rule.id))
    return table(("not canonical", "upstream"), [[", ".join(ids), text] for text, ids in told.items()])


def rule_counts(format: str) -> str:
    """Return how many rules of each kind a format has."""
    numbers = {kind: len(rules_of(format, kind)) for kind in (REJECT, CANONICAL, NOTE)}
    return f"{sum(numbers.values())} rules: {', '.join(f'{number} {kind}' for kind, number in numbers.items())}"


def upstream() -> str:
    """Return the implementations that the rules speak of."""
    return "\n".join(f"- `{key}`: {what}" for key, what in UPSTREAM.items())


# --------------------------------------------------------------------------------------------------------- golden files


def _case(case_id: str) -> Case:
    return next(case for case in all_cases() if case.id == case_id)


def walk(case_id: str, *prefixes: str) -> str:
    """Return the bytes of a golden file, field by field; only those whose path begins with one of the prefixes."""
    case = _case(case_id)
    data, width = case.read(), _ROW[case.format]
    lines: list[str] = []
    for region in module_of(case.format).regions(BufferSource(data, case_id)):
        if not prefixes or region.path.startswith(prefixes):
            for part in _parts(data, region):
                lines += _walked(data, part, width)
    return fence("text", "\n".join(lines))


def _parts(data: bytes, region: Region) -> Iterator[Region]:
    """Yield the pairs of a tensor's record of text one by one; the last has the parenthesis that ends it, too."""
    if region.kind != "text" or not region.path.endswith("]"):
        yield region
        return
    end = region.offset + region.size
    pairs = sexp.outline(data[region.offset : end], 2).value
    assert isinstance(pairs, tuple)
    starts = [region.offset, *(region.offset + pair.start for pair in pairs[1:]), end]
    for pair, start, stop in zip(pairs, starts, starts[1:], strict=False):
        key = pair.at(0).value
        assert isinstance(key, bytes)
        yield replace(region, offset=start, size=stop - start, path=f"{region.path}.{key.decode()}")


def _walked(data: bytes, region: Region, width: int) -> Iterator[str]:
    content = data[region.offset : region.offset + region.size]
    told = region.value and region.kind not in ("text", "padding")  # what is text can be read beside the bytes
    head = f"{region.path}: {region.value}" if told else region.path

    def line(at: int, row: str, text: str = "") -> str:
        return f"{region.offset + at:08x}  {row:{3 * width - 1}}  {text:{width}}  {'' if at else head}".rstrip()

    if not any(content) and len(content) > width:
        yield line(0, f"00 x {len(content)}")
        return
    end = min(len(content.rstrip(b"\0")), width * _SHOWN if region.kind == "data" else len(content))
    end = min(-(-max(end, 1) // width) * width, len(content))  # a row is shown whole
    for at in range(0, end, width):
        row = content[at : min(at + width, end)]
        yield line(at, row.hex(" "), "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row))
    if end < len(content):
        rest = len(content) - end
        yield line(end, f"... {rest} more bytes" if any(content[end:]) else f"00 x {rest}")


def document(case_id: str) -> str:
    """Return the neutral document of a golden file."""
    text = json.dumps(_case(case_id).read_expected(), indent=2)
    return fence("json", re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", lambda match: f"[{' '.join(match[1].split())}]", text))


def header(case_id: str) -> str:
    """Return the header's text that a writer writes for the document of a golden file."""
    case = _case(case_id)
    data = ckptspec.encode(case.read_expected())
    frame, language = _FRAMES[case.format]
    size = record_size(frame)
    length = frame.parse(data)["header_length"]
    return fence(language, data[size : size + length].decode())


def size(case_id: str) -> str:
    """Return the size of a golden file in bytes."""
    return f"{len(_case(case_id).read()):,}"


def cases(format: str = "") -> str:
    """Return a round number that the suite has more cases than."""
    number = sum(format in ("", case.format) for case in all_cases())
    return f"{number // 100 * 100:,}"


# --------------------------------------------------------------------------------------------------- what else there is


def verbs() -> str:
    """Return the verbs of the command line."""
    parser = build_parser()
    action = next(item for item in parser._actions if isinstance(item, argparse._SubParsersAction))
    rows = []
    for choice in action._choices_actions:
        usage = action.choices[choice.dest].format_usage().removeprefix("usage: ")
        words = re.sub(r"\s+", " ", usage).strip()
        shown = f"ckptspec {choice.dest} ..." if len(words) > 120 else words.replace(" [-h]", "")
        rows.append([code(shown), str(choice.help)])
    return table(("command", "what it does"), rows)


def file(path: str, language: str) -> str:
    """Return the content of a file."""
    return fence(language, (ROOT / path).read_text("utf-8"))


def calls(module: str, *names: str) -> str:
    """Return how things of a module of ckptspec are called, each with the first paragraph of its documentation."""
    rows = []
    for name in names:
        called: Any = importlib.import_module(f"ckptspec.{module}")
        for part in name.split("."):
            called = getattr(called, part)
        doc = " ".join((inspect.getdoc(called) or "").split("\n\n", 1)[0].split()).replace("``", "`")
        shown = f"{module.rpartition('.')[2]}.{name}" if "." not in name else name
        rows.append([code(f"{shown}({_parameters(called)})"), doc])
    return table(("call", "what it does"), rows)


class _Named:
    """A default that is shown by its name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


def _default_shown(default: Any) -> Any:
    named = isinstance(default, type) and default is not inspect.Parameter.empty
    return _Named(default.__name__) if named else default


def _parameters(called: Any) -> str:
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty, default=_default_shown(parameter.default))
        for parameter in inspect.signature(called).parameters.values()
        if parameter.name != "self"
    ]
    return str(inspect.Signature(parameters)).removeprefix("(").removesuffix(")")


def formats() -> str:
    """Return the formats that are read and written."""
    rows = []
    for name, title in FORMATS.items():
        page = f"[docs/formats/{name}.md](docs/formats/{name}.md)"
        numbers = (len(rules_of(name)), sum(case.format == name for case in all_cases()))
        rows.append([title, page, *(f"{number:,}" for number in numbers)])
    return table(("format", "its page", "rules", "cases"), rows, right=(2, 3))


BLOCKS: Final[dict[str, Callable[..., str]]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        calls,
        cases,
        differences,
        document,
        dtypes,
        file,
        formats,
        header,
        index,
        keys,
        layout,
        optimizers,
        precisions,
        quantized,
        rewriting,
        rule_counts,
        rules,
        safetensors_dtypes,
        sections,
        size,
        upstream,
        value,
        verbs,
        walk,
    )
} | more.BLOCKS


# ---------------------------------------------------------------------------------------------------------------- pages


def rendered(text: str, blocks: Mapping[str, Callable[..., str]] = BLOCKS, *, some: bool = False) -> str:
    """Return a page with its blocks as they should be; with ``some``, blocks of other names stay as they are."""

    def block(match: re.Match[str]) -> str:
        name, *arguments = match["call"].split()
        if some and name not in blocks:
            return match[0]
        made = blocks[name](*arguments)
        alone = match["body"].startswith("\n")
        if not alone and text[: match.start()].rpartition("\n")[2].strip() == "":
            raise ValueError(f"a comment at the start of a line makes HTML of all of it: {match['call']}")
        gap = "\n\n" if alone else ""
        return f"<!-- generated: {match['call']} -->{gap}{made}{gap}<!-- end -->"

    return _BLOCK.sub(block, text)


def derived() -> Iterator[tuple[str, str | None, str]]:
    """Yield path, text (None if there is none) and right text of all pages and pictures."""
    for page in PAGES:
        old = (ROOT / page).read_text("utf-8")
        yield page, old, rendered(old)
    for slug, picture in pictures().items():
        path = ROOT / PICTURES / f"{slug}.svg"
        old_picture = path.read_text("utf-8") if path.is_file() else None
        yield f"{PICTURES}/{path.name}", old_picture, picture.standalone()


def main(argv: Sequence[str] | None = None) -> int:
    """Rewrite the pages and pictures, or check them."""
    parser = argparse.ArgumentParser(description="Write what the documentation derives from the specification.")
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a block is stale")
    options = parser.parse_args(argv)
    stale = 0
    for name, old, new in derived():
        if new == old:
            continue
        stale += 1
        if options.check:
            lines = difflib.unified_diff((old or "").splitlines(True), new.splitlines(True), name, name)
            sys.stdout.writelines(lines)
        else:
            (ROOT / name).write_text(new, "utf-8")
            print(f"{name}: rewritten")
    if stale and options.check:
        print("the pages are stale: run python docs/generate.py", file=sys.stderr)
    return 1 if stale and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
