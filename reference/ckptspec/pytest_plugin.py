"""The plugin for pytest: a marker that runs a test on cases of the conformance suite, and fixtures for golden files.

pytest loads this module in every project of an environment that has ckptspec. So it adds what bears its name and
nothing else, and imports the rest of the package when a test asks for something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from .testing import Case, CaseSelector

__all__ = ["ckptspec_case", "ckptspec_cases"]

_MARKER: Final = "ckptspec_cases"
_MARKERS: Final = (
    f"{_MARKER}(format=, verdict=, level=, tag=, skip_tags=, rule=, match=, direction=, argument='case'): "
    "run the test on each case of the conformance suite of ckptspec that fits",
    "ckptspec_acceptable: (set on such cases) readers may differ; the reason is in case.reason",
    "ckptspec_should: (set on such cases) the suite says should, not must",
)


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers."""
    for line in _MARKERS:
        config.addinivalue_line("markers", line)


@pytest.fixture(scope="session")
def ckptspec_case() -> Callable[[str], Case]:
    """Return a function from a case's id to the case."""
    return _case


@pytest.fixture(scope="session")
def ckptspec_cases() -> CaseSelector:
    """Return ``ckptspec.testing.cases``, whose errors are usage errors of pytest."""
    return _cases


def _case(id: str) -> Case:
    __tracebackhide__ = True
    from .errors import ArgumentError
    from .testing import case

    try:
        return case(id)
    except ArgumentError as error:
        raise pytest.UsageError(str(error)) from None


def _cases(**wanted: Any) -> tuple[Case, ...]:
    __tracebackhide__ = True
    from .errors import ArgumentError
    from .testing import cases

    try:
        return cases(**wanted)
    except ArgumentError as error:
        raise pytest.UsageError(str(error)) from None


# ------------------------------------------------------------------------------------------------------ parametrisation


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrise a test that has the marker, on itself, its class or its module; the nearest one counts."""
    marked = list(metafunc.definition.iter_markers_with_node(_MARKER))
    if not marked:
        return
    nearest = marked[0][0]
    marks = [mark for node, mark in marked if node is nearest]
    try:
        wanted = [_wanted(mark) for mark in marks]
        argument = _argument(metafunc, wanted, own=nearest is metafunc.definition)
        if argument is None:
            return
        found = {case.id: case for selection in wanted for case in _cases(**selection)}
    except pytest.UsageError as error:
        where = f"{metafunc.definition.nodeid}: " if nearest is metafunc.definition else f"{nearest.nodeid}: "
        raise pytest.Collector.CollectError(f"{where}@pytest.mark.{_MARKER}: {error}") from None
    metafunc.parametrize(argument, [_param(case) for case in found.values()])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse marked methods of a ``unittest.TestCase``: they cannot be parametrised, and would pass without a case."""
    for item in items:
        if type(item).__name__ == "TestCaseFunction" and any(mark.name == _MARKER for mark in item.own_markers):
            raise pytest.UsageError(f"{item.nodeid}: @pytest.mark.{_MARKER}: a method of a TestCase cannot take cases")


def _wanted(mark: pytest.Mark) -> dict[str, Any]:
    """Return the arguments of one marker."""
    import inspect

    from .testing import cases

    known = [*inspect.signature(cases).parameters, "argument"]
    if mark.args:
        raise pytest.UsageError(f"takes keyword arguments only: {', '.join(known)}")
    unknown = [name for name in mark.kwargs if name not in known]
    if unknown:
        raise pytest.UsageError(f"has no argument {unknown[0]!r}; there are {', '.join(known)}")
    return dict(mark.kwargs)


def _argument(metafunc: pytest.Metafunc, wanted: Iterable[dict[str, Any]], *, own: bool) -> str | None:
    """Return the argument of the test that gets the cases; None where a class has the marker, and this test no use."""
    names = {str(selection.pop("argument", "case")) for selection in wanted}
    if len(names) > 1:
        raise pytest.UsageError(f"gives two arguments, {' and '.join(sorted(names))}")
    (name,) = names
    if name in metafunc.fixturenames:
        return name
    if own:
        raise pytest.UsageError(f"the test has no argument {name!r} for the case")
    return None


def _param(case: Case) -> Any:
    marks = [pytest.mark.ckptspec_acceptable] if case.verdict == "acceptable" else []
    marks += [pytest.mark.ckptspec_should] if case.level == "should" else []
    return pytest.param(case, id=case.id, marks=marks)
