"""Which readings can be had on this machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .kaitai_reading import KAITAI, kaitai_reading
from .languages import LANGUAGES, compiled, language_reading
from .official import OFFICIAL, official
from .readings import MissingReadingError, Reading, plain, reference

__all__ = ["gathered"]


def gathered(folder: Path | None = None) -> tuple[list[Reading], dict[str, str]]:
    """Return all readings, the reference first, and why others are missing, by name.

    Adapters in other languages are compiled into the folder; without one they are left out.
    """
    made, missing = [reference(), plain()], {}
    makers: dict[str, Callable[[], Reading]] = {KAITAI: kaitai_reading, OFFICIAL: official}
    if folder is not None:
        for language in LANGUAGES:
            makers[f"{language.title} adapter"] = lambda language=language: language_reading(  # type: ignore[misc]
                language, compiled(language, folder / language.name)
            )
    for name, make in makers.items():
        try:
            made.append(make())
        except MissingReadingError as error:
            missing[name] = str(error)
    return made, missing
