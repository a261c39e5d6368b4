"""The examination of one file, and of a batch: what a worker does."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from ..findings import Finding, Report
from ..formats import describe, extension_of, foreign, module_of, recognise, unrecognised
from ..publish import is_temporary, writer_lives
from ..source import Source, open_source
from ..spec.rules import REJECT, RULES
from ..text import printable, shorten
from ..urls import name_of
from .places import stamp_of
from .verdicts import is_old, verdict_of

__all__ = ["MOST_FINDINGS", "Examined", "Job", "Options", "crashed", "examine", "examine_all"]

MOST_FINDINGS: Final = 20  # that are kept of a file, those that refuse it first; all are counted
_LONGEST: Final = 300  # characters of a text that is kept
_HEAD: Final = 4096
_TRIES: Final = 2  # for a file that changes while it is read


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is wanted of an examination.

    ``format`` is the only format that is wanted, or None; with ``payloads`` those are read, with ``digest`` a
    digest of all bytes is taken.
    """

    payloads: bool = True
    digest: bool = False
    format: str | None = None


@dataclass(slots=True, kw_only=True)  # not frozen: to send it to a worker and back would take three times as long
class Job:
    """A file to be examined.

    ``known`` is the digest of a content whose result is at hand, or ``""``. ``address`` is where a file elsewhere is
    opened. ``checksums`` are those of stretches that others have hashed: offset, size and FNV-1a-64.
    """

    path: str
    size: int
    stamp: str
    named: bool = False
    known: str = ""
    address: str = ""
    checksums: tuple[tuple[int, int, int], ...] = ()

    @property
    def place(self) -> str:
        """Where the file is opened."""
        return self.address or self.path


Row = tuple[str, str, int, int, str, str, str, str]  # rule, severity, offset, length, path, found, expected, hint


@dataclass(slots=True, kw_only=True)  # not frozen, as above
class Examined:
    """What an examination says. ``counts`` has the number of findings of each rule, ``findings`` the first of them.

    ``gone`` says that there was no file any more, ``same`` that the file has the content of which the result is known:
    there is nothing else then. ``message`` says what is the matter with a file that has no findings.
    """

    path: str
    size: int
    stamp: str
    named: bool = False
    verdict: str = ""
    format: str | None = None
    version: int | None = None
    old: bool = False
    message: str = ""
    digest: str = ""
    counts: dict[str, int]
    findings: tuple[Row, ...] = ()
    truncated: bool = False
    gone: bool = False
    same: bool = False


def examine_all(jobs: Sequence[Job], options: Options) -> list[Examined]:
    """Examine a batch of files, whatever happens with some of them."""
    return [examine(job, options) for job in jobs]


def examine(job: Job, options: Options) -> Examined:
    """Examine a file. Never raises for what a file or the system does."""
    try:
        for _ in range(_TRIES):
            made = _attempt(job, options)
            size, stamp = stamp_of(job.place)
            if made is not None and (size, stamp) == (job.size, job.stamp):
                return made
            job = replace(job, size=size, stamp=stamp)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return _plain(job, "", gone=True)
        return _plain(job, "unreadable", " ".join((error.strerror or str(error)).split()))
    except MemoryError:
        return crashed(job, "not enough memory")
    except Exception as error:  # a defect of this library; the rest of the files is none the worse for it
        return crashed(job, f"{type(error).__name__}: {error}")
    return _plain(job, "unreadable", "It changes while it is read")


def _attempt(job: Job, options: Options) -> Examined | None:
    """Examine a file; None if that failed because the file changed. Raises OSError."""
    try:
        return _examined(job, options)
    except OSError:
        if stamp_of(job.place) == (job.size, job.stamp):
            raise
        return None


def crashed(job: Job, why: str) -> Examined:
    """Return the result for a file that an examination did not survive."""
    return _plain(job, "crashed", why)


def _plain(job: Job, verdict: str, message: str = "", *, gone: bool = False, same: bool = False) -> Examined:
    return Examined(
        path=job.path,
        size=job.size,
        stamp=job.stamp,
        named=job.named,
        verdict=verdict,
        message=_kept(message),
        digest=job.known if same else "",
        counts={},
        gone=gone,
        same=same,
    )


def _examined(job: Job, options: Options) -> Examined:
    name = name_of(job.address) if job.address else os.path.basename(job.path)
    if is_temporary(name):
        if not job.address and writer_lives(job.path):
            return _plain(job, "other", "a draft that is being written")
        return _plain(
            job, "unfinished", "the draft of a writer that was killed; the next write to that destination removes it"
        )
    with open_source(job.place) as source:
        source.known_checksums = {(offset, size): value for offset, size, value in job.checksums}
        digest = ""
        if options.digest:
            digest = _digest(source)
            if digest == job.known:
                return _plain(job, "", same=True)
        return replace(_content(job, options, source, name), digest=digest)


def _digest(source: Source) -> str:
    from blake3 import blake3

    hasher = blake3()
    for block in source.blocks(0, source.size):
        hasher.update(block)
    return hasher.hexdigest()


def _content(job: Job, options: Options, source: Source, name: str) -> Examined:
    found = recognise(source)
    ending = extension_of(name)
    if options.format is not None and found != options.format:
        if not job.named and (found is not None or ending != options.format):
            return _plain(job, "other", "" if found is None else f"a file of the format {found}")
        found = options.format  # where a file of this format should be
    elif found is None:
        return _foreign(job, source, ending)
    report = module_of(found).validate(source, payloads=options.payloads, survivors=False)
    return _summary(job, report)


def _foreign(job: Job, source: Source, ending: str | None) -> Examined:
    """Judge a file of no known format: it counts only where somebody expects a checkpoint."""
    head = bytes(source.read(0, min(_HEAD, source.size)))
    what = describe(head, source.size)
    if ending is None and not job.named:
        return _plain(job, "other", what)
    if ending == "ocannl" and foreign(head):  # other programs have given their checkpoints this extension, too
        return _plain(job, "other", what)
    report = Report(source=source.name, size=source.size, findings=[unrecognised(source)])
    made = _summary(job, report)
    return replace(made, verdict="unfinished") if _is_blank(source, head) else made


def _is_blank(source: Source, head: bytes) -> bool:
    """Say whether nothing was ever written: no bytes, or zeros that stand for what a system had no time to write."""
    return not any(head) and source.first_nonzero(0, source.size) is None


def _summary(job: Job, report: Report) -> Examined:
    counts = Counter(finding.rule for finding in report.findings)
    refusing = [finding for finding in report.findings if finding.severity == REJECT]
    others = [finding for finding in report.findings if finding.severity != REJECT]
    return Examined(
        path=job.path,
        size=report.size,
        stamp=job.stamp,
        named=job.named,
        verdict=verdict_of(report),
        format=report.format,
        version=report.version,
        old=is_old(counts),
        counts=dict(counts),
        findings=tuple(_row(finding) for finding in (refusing + others)[:MOST_FINDINGS]),
        truncated=report.truncated,
    )


def _row(finding: Finding) -> Row:
    texts = (finding.path, finding.found, finding.expected, finding.hint)
    path, found, expected, hint = map(_kept, texts)
    return finding.rule, RULES[finding.rule].kind, finding.offset, finding.length, path, found, expected, hint


def _kept(text: str) -> str:
    """Return a text as it is kept: not longer than anybody reads, and without what cannot be written as UTF-8."""
    text = shorten(text, _LONGEST)
    return text if text.isascii() and text.isprintable() else printable(text) if not _is_plain(text) else text


def _is_plain(text: str) -> bool:
    return printable(text).replace("\\\\", "\\") == text
