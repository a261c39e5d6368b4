"""Tables of the page on fuzzing, from the fuzzer itself."""

from __future__ import annotations

from ckptspec.conformance.fuzz import limits
from ckptspec.conformance.fuzz.dictionary import words
from ckptspec.conformance.fuzz.subjects import KINDS
from ckptspec.conformance.fuzz.targets import TARGETS
from ckptspec.conformance.fuzz.trials import MOST, corpus, vectors

from .markdown import code, grouped, prose, table

__all__ = ["fuzz", "fuzz_kinds", "fuzz_limits", "fuzz_targets"]

_INPUTS = {"sexp": "the text of an S-expression", "document": "a neutral document as JSON text"}


def fuzz(name: str) -> str:
    """Return a number of the fuzzer: ``most`` bytes of an input, ``instrumented`` factor of time."""
    return {"most": grouped(MOST), "instrumented": str(limits.INSTRUMENTED)}[name]


def fuzz_kinds() -> str:
    """Return the kinds of inputs, and how many words, golden files and committed inputs they have."""
    rows = []
    for kind in KINDS:
        numbers = (len(words(kind)), sum(1 for _ in vectors(kind)), len(corpus(kind)))
        rows.append([code(kind), _INPUTS.get(kind, "a file of the format"), *(f"{number:,}" for number in numbers)])
    return table(("kind", "an input is", "words", "golden files", "corpus"), rows, right=(2, 3, 4))


def fuzz_targets() -> str:
    """Return the targets and what must hold."""
    rows = []
    for target in TARGETS:
        kinds = "all formats" if len(target.kinds) == 3 else ", ".join(map(code, target.kinds))
        errors = ", ".join(code(error.__name__) for error in target.allowed)
        rows.append([code(target.name), kinds, errors, f"{target.factor:g}", prose(target.doc)])
    return table(("target", "kinds", "may raise", "factor", "what must hold"), rows, right=(3,))


def fuzz_limits() -> str:
    """Return the limits on memory and time."""
    rows = [
        ["memory", f"{int(limits.MEMORY.fixed):,} bytes", f"{limits.MEMORY.per_byte:,} bytes"],
        ["processor time", f"{limits.SECONDS.fixed:g} s", f"{limits.SECONDS.per_byte * 1e6:g} µs"],
    ]
    return table(("limit of", "fixed", "for each byte of the input, times the target's factor"), rows, right=(1, 2))
