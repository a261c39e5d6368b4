"""The matrices that the documentation shows: the reference, and the adapters that the tests have.

They are made when the documentation is built, from runs made there and then. Decoders run as anybody's would, as
commands. The plain encoders are called in this process: a start of Python for each document would take minutes.

``python -m ckptspec.conformance.matrix_examples DIR`` writes the pages into a folder.
"""

from __future__ import annotations

import importlib.util
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ..errors import ArgumentError
from ..formats import FORMATS
from .adapters import BatchDecoder, CallableEncoder, CommandDecoder
from .catalogue import VECTORS, Suite, load_suite
from .exchange import Party, exchange
from .matrix import Matrix, matrix_of_runs
from .matrix_page import render_html
from .outcome_report import Result, RunResult
from .runner import REFERENCE, Options, Runner, reference_decoder, reference_encoder

__all__ = ["DECODERS", "EXCHANGE", "decoders_matrix", "exchange_matrix", "pages"]

DECODERS: Final = "matrix/decoders.html"
EXCHANGE: Final = "matrix/exchange.html"

_TESTS: Final = Path(__file__).resolve().parent / "tests"
_C: Final = Path(__file__).resolve().parents[1] / "docs" / "adapters" / "c"
_PLAIN: Final = "plain"
_OAM: Final = ("oam",)
_FAULTY: Final = {
    "accept-dup": "faulty: takes a name twice",
    "extents": "faulty: pads shapes",
}

_IN_EXCHANGE: Final = ("*/golden_*",)  # all documents would take twice as long, and say the same

_DECODERS_NOTE: Final = (
    "The reference, the plain decoders that the tests hold against it, the C adapter of the documentation, and two "
    "decoders with a bug put in on purpose, to show what that looks like."
)
_EXCHANGE_NOTE: Final = (
    "The documents of the golden cases, written by the reference and by plain encoders, and read by the reference, "
    "plain decoders, the C adapter of the documentation, and a decoder with a bug put in on purpose."
)

_HOME: Final = "../matrix.html"  # of the site


def pages(rule_link: Callable[[str], str | None] | None = None) -> Iterator[tuple[str, str]]:
    """Yield the path and the HTML of each page. ``rule_link`` gives the address of a rule, seen from ``matrix/``."""
    with _c_adapter() as c_adapter:
        made = {
            DECODERS: (decoders_matrix(c_adapter), "Decoders and cases", _DECODERS_NOTE),
            EXCHANGE: (exchange_matrix(c_adapter), "Producers and consumers", _EXCHANGE_NOTE),
        }
    for path, (matrix, title, note) in made.items():
        yield path, render_html(matrix, title=title, rule_link=rule_link, note=note, home=_HOME)


def decoders_matrix(c_adapter: str | None = None, options: Options | None = None) -> Matrix:
    """Return the decoders × cases. ``c_adapter`` is the command of the C adapter, if it could be compiled."""
    suite = load_suite()
    wanted = [Party(name=REFERENCE, adapter=reference_decoder()), *_plain_decoders(), *_c_decoders(c_adapter)]
    wanted += [_faulty(bug) for bug in _FAULTY]
    return _presentable(matrix_of_runs([_run(suite, party, options or Options()) for party in wanted], suite))


def exchange_matrix(c_adapter: str | None = None, options: Options | None = None) -> Matrix:
    """Return the producers × consumers."""
    writing = [Party(name=REFERENCE, adapter=reference_encoder()), *_plain_encoders()]
    reading = [Party(name=REFERENCE, adapter=reference_decoder()), *_plain_decoders(), *_c_decoders(c_adapter)]
    options = options or Options(filters=_IN_EXCHANGE)
    return _presentable(exchange(load_suite(), writing, [*reading, _faulty("extents")], options=options))


def _run(suite: Suite, party: Party, options: Options) -> RunResult:
    run = Runner(suite, decoder=party.adapter, options=replace(options, formats=party.formats)).run()
    return replace(run, name=party.name)


def _script(name: str, *arguments: str) -> str:
    return shlex.join([sys.executable, "-B", str(_TESTS / name), *arguments])


def _plain_decoders() -> list[Party]:
    return [
        Party(name=_PLAIN, adapter=BatchDecoder(_script(f"plain_{name}_decoder.py", "--batch")), formats=(name,))
        for name in FORMATS
    ]


def _faulty(bug: str) -> Party:
    command = _script("plain_oam_decoder_wrong.py", "--bug", bug, "--batch")
    return Party(name=_FAULTY[bug], adapter=BatchDecoder(command), formats=_OAM)


# --- the C adapter --------------------------------------------------------------------------------------------------


@contextmanager
def _c_adapter() -> Iterator[str | None]:
    """Compile the C adapter; give its command, or None if there is no compiler or no documentation."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not _C.is_dir():
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="ckptspec-") as folder:
        program = Path(folder, "oam-adapter")
        sources = [str(_C / name) for name in ("adapter.c", "my_reader.c")]
        subprocess.run([compiler, "-O2", "-o", str(program), *sources], check=True)  # noqa: S603  # our own sources
        yield shlex.quote(str(program))


def _c_decoders(command: str | None) -> list[Party]:
    if command is None:
        return []
    return [Party(name="C adapter", adapter=CommandDecoder(f"{command} {{}}"), formats=_OAM)]


# --- the plain encoders ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _PlainEncoder:
    """A plain encoder as a function."""

    module: Any

    def __call__(self, document: Any) -> bytes:
        try:
            made = self.module.encode(document)
        except self.module.Refused as refused:
            raise ArgumentError(str(refused)) from None
        if isinstance(made, bytes):
            return made
        header, payloads = made  # each payload after a gap of so many bytes
        return bytes(header + b"".join(bytes(gap) + payload for gap, payload in payloads))


def _plain_encoders() -> list[Party]:
    return [
        Party(name=_PLAIN, adapter=_plain_encoder(f"plain_{name}_encoder.py"), formats=(name,))
        for name in FORMATS
        if (_TESTS / f"plain_{name}_encoder.py").is_file()
    ]


def _plain_encoder(name: str) -> CallableEncoder:
    spec = importlib.util.spec_from_file_location(Path(name).stem, _TESTS / name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return CallableEncoder(_PlainEncoder(module), f"{name}, called as a function")


# --- what others may see --------------------------------------------------------------------------------------------


def _presentable(matrix: Matrix) -> Matrix:
    """Return a matrix in whose texts no folder of this machine stands."""
    columns = []
    for column in matrix.columns:
        results = {key: _without_places(result) for key, result in column.results.items()}
        about = tuple(dict.fromkeys(map(_without_place, column.about)))
        columns.append(replace(column, about=about, results=results))
    return replace(matrix, columns=tuple(columns))


def _without_place(text: str) -> str:
    places = {
        str(VECTORS): "conformance/vectors",
        str(VECTORS.resolve()): "conformance/vectors",
        str(_TESTS): "conformance/tests",
        sys.executable: "python",
    }
    for place, shown in places.items():
        text = text.replace(place, shown)
    return text


def _without_places(result: Result) -> Result:
    return replace(
        result,
        file="",
        happened=_without_place(result.happened),
        by_hand=_without_place(result.by_hand),
        printed=tuple(map(_without_place, result.printed)),
        stderr=tuple(map(_without_place, result.stderr)),
    )


def main(arguments: Sequence[str]) -> None:
    """Write the pages into a folder."""
    folder = Path(*arguments)
    for path, text in pages():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
