"""What a training loop keeps on the host, beside its tensors, under a key of a checkpoint's ``extra``.

A loss scaler, early stopping and a detector of outliers stand here; a loop makes its own of ``HostState``. A state that
was kept under other parameters is refused.

OCANNL checkpoints, training record: ``extra``.
"""

from __future__ import annotations

import math
import re
import typing
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from ..errors import ArgumentError
from ..text import show
from ._nodes import Atom, atom, shown, whole

if TYPE_CHECKING:
    from .training import Progress

__all__ = ["EarlyStopping", "HostState", "LossScaler", "OutlierDetector"]

_INTEGER: Final = re.compile("-?[0-9]{1,19}")


def _hints(kind: type[Any]) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {item.name: hints[item.name] for item in fields(kind)}


def _number(value: Any, path: str) -> float:
    try:
        number = float(value) if not isinstance(value, (str, bytes, bytearray)) else math.nan
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if math.isnan(number):
        raise ArgumentError(f"found {show(value)}, expected a number", path)
    return number


class HostState:
    """What a loop keeps on the host under a key of ``extra``: base of frozen dataclasses.

    The fields that ``KEPT`` names are the state, the others are parameters of the loop. The loop makes the object with
    its parameters, as ever, and then asks ``from_extra`` for the one to go on with. Fields are int, float or
    tuple[float, ...]; a float may be infinite, but no NaN. The text is the class's name and a word for each field,
    ``name=value``, floats as the shortest decimals that give the same bits again. Raises ArgumentError.
    """

    __slots__ = ()

    KEPT: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for name, hint in _hints(type(self)).items():
            value = getattr(self, name)
            if hint is int:
                value = whole(value, name)
            elif hint is float:
                value = _number(value, name)
            else:
                if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
                    raise ArgumentError(f"found {show(value)}, expected numbers", name)
                value = tuple(_number(item, name) for item in value)
            object.__setattr__(self, name, value)
        self.check()

    def check(self) -> None:
        """Raise ArgumentError if the fields do not make sense together."""

    def to_extra(self, key: Atom) -> tuple[Atom, Atom]:
        """Return the pair of ``extra`` that keeps this under ``key``."""
        words = (f"{name}={_spelled(getattr(self, name))}" for name in _hints(type(self)))
        return atom(key, "key"), " ".join((type(self).__name__, *words))

    def from_extra(self, progress: Progress, key: Atom) -> Self:
        """Return the object of these parameters with the state that ``progress`` holds under ``key``.

        Without that key, return this object: what then happens is the loop's affair. Raises ArgumentError if the state
        was kept under other parameters, or if the value is no such state.
        """
        text = progress.get(key)
        if text is None:
            return self
        path = f"extra[{show(key)}]"
        kind = type(self).__name__
        if not isinstance(text, str) or text.partition(" ")[0] != kind:
            raise ArgumentError(f"found {show(text)}, expected the state of {_article(kind)}", path)
        words = [word.partition("=") for word in text.split(" ")[1:]]
        names = list(_hints(type(self)))
        if [name for name, _, _ in words] != names:
            raise ArgumentError(f"found {show(text)}, expected {', '.join(names)}", path)
        state: dict[str, Any] = {}
        for name, _, value in words:
            own = _spelled(getattr(self, name))
            if name in self.KEPT:
                state[name] = _parsed(value, _hints(type(self))[name], f"{path}.{name}")
            elif value != own:
                found = f"it was kept with {name}={shown(value[:60])}, this {kind} has {name}={own}"
                raise ArgumentError(found, path)
        try:
            made = replace(typing.cast(Any, self), **state)
        except ArgumentError as error:
            raise ArgumentError(str(error), path) from None
        if made.to_extra(key)[1] != text:
            raise ArgumentError(f"found {show(text)}, which is not spelled as {_article(kind)} spells it", path)
        return typing.cast(Self, made)


def _article(kind: str) -> str:
    return f"{'an' if kind[0] in 'AEIOU' else 'a'} {kind}"


def _spelled(value: Any) -> str:
    return ",".join(map(repr, value)) if isinstance(value, tuple) else repr(value)


def _parsed(text: str, hint: Any, path: str) -> Any:
    try:
        if hint is int:
            if not _INTEGER.fullmatch(text):
                raise ValueError
            return int(text)
        if hint is float:
            return float(text)
        return tuple(float(item) for item in text.split(",")) if text else ()
    except ValueError:
        raise ArgumentError(f"found {show(text)}, expected a number", path) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class LossScaler(HostState):
    """Scale of a loss whose gradients are of low precision: less after an overflow, more after many good steps.

    ``scale`` is multiplied by ``backoff`` at an overflow, and by ``growth`` after ``interval`` steps without; it stays
    what it is where the product would be no positive finite number.
    """

    KEPT: ClassVar[tuple[str, ...]] = ("scale", "good_steps")

    growth: float = 2.0
    backoff: float = 0.5
    interval: int = 2000
    scale: float = 65536.0
    good_steps: int = 0

    def check(self) -> None:
        """Raise ArgumentError if the fields do not make sense together."""
        for name in ("growth", "backoff", "scale"):
            if not 0 < getattr(self, name) < math.inf:
                raise ArgumentError(f"found {getattr(self, name)!r}, expected a positive finite number", name)
        if not self.good_steps < self.interval:
            raise ArgumentError(
                f"found {self.good_steps}, expected less than the interval {self.interval}", "good_steps"
            )

    def after(self, *, overflow: bool) -> LossScaler:
        """Return the scaler after a step."""
        good = 0 if overflow else self.good_steps + 1
        if not overflow and good < self.interval:
            return replace(self, good_steps=good)
        scale = self.scale * (self.backoff if overflow else self.growth)
        return replace(self, scale=scale if 0 < scale < math.inf else self.scale, good_steps=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyStopping(HostState):
    """The lowest loss so far, and how often in a row it was not undercut by more than ``margin``."""

    KEPT: ClassVar[tuple[str, ...]] = ("best", "waited")

    patience: int
    margin: float = 0.0
    best: float = math.inf
    waited: int = 0

    def check(self) -> None:
        """Raise ArgumentError if the fields do not make sense together."""
        if not 0 <= self.margin < math.inf:
            raise ArgumentError(f"found {self.margin!r}, expected a finite number that is not negative", "margin")

    @property
    def stop(self) -> bool:
        """Whether patience is at its end."""
        return self.waited >= self.patience

    def after(self, loss: float) -> EarlyStopping:
        """Return the object after a loss was measured; a NaN undercuts nothing."""
        if loss < self.best - self.margin:
            return replace(self, best=float(loss), waited=0)
        return replace(self, waited=self.waited + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlierDetector(HostState):
    """The last ``size`` values that were no outliers: once there are so many, they tell what one is.

    An outlier is further than ``threshold`` standard deviations of the window from its mean, or not finite. It does not
    enter the window.
    """

    KEPT: ClassVar[tuple[str, ...]] = ("window",)

    size: int
    threshold: float = 6.0
    window: tuple[float, ...] = ()

    def check(self) -> None:
        """Raise ArgumentError if the fields do not make sense together."""
        if not 1 <= self.size >= len(self.window):
            raise ArgumentError(f"found {self.size}, expected at least 1 and the {len(self.window)} values", "size")
        if not all(map(math.isfinite, self.window)):
            raise ArgumentError("expected finite numbers", "window")

    def is_outlier(self, value: float) -> bool:
        """Return whether a value is an outlier; as long as the window is not full, no finite one is."""
        if not math.isfinite(value) or len(self.window) < self.size:
            return not math.isfinite(value)
        mean = math.fsum(self.window) / self.size
        deviation = math.sqrt(math.fsum((item - mean) ** 2 for item in self.window) / self.size)
        return abs(value - mean) > self.threshold * deviation

    def after(self, value: float) -> OutlierDetector:
        """Return the detector after a value."""
        if self.is_outlier(value):
            return self
        return replace(self, window=(*self.window, float(value))[-self.size :])
