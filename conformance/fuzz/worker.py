"""One process that fuzzes one kind: a program that is run by its path, so that atheris sees all imports.

    python -P worker.py KIND FOLDER SECONDS SEED

New inputs that reach new code go to FOLDER/corpus, inputs that fail to FOLDER/found, with the traceback beside each.
"""

from __future__ import annotations

import sys
from pathlib import Path

_SUITE = Path(__file__).parents[1]


def main(kind: str, folder: str, seconds: str, seed: str) -> None:
    """Fuzz until the time is over; does not return."""
    import atheris

    files = (path.relative_to(_SUITE).with_suffix("").parts for path in _SUITE.rglob("*.py"))
    plain = [".".join(("ckptspec.conformance", *parts)).removesuffix(".__init__") for parts in files]
    with atheris.instrument_imports(include=["ckptspec"], exclude=plain):
        from ckptspec.conformance.fuzz.engine import Engine, import_all

        import_all()
    engine = Engine(kind, Path(folder))
    atheris.Setup(
        engine.arguments(int(seconds), int(seed)),
        engine.try_one,
        custom_mutator=engine.mutator(lambda data, most: atheris.Mutate(data, most)),  # there once it fuzzes
        custom_crossover=engine.crossover,
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
