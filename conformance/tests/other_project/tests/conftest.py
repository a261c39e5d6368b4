from __future__ import annotations

from pathlib import Path

import pytest

from ckptspec.testing import Case, CaseSelector


@pytest.fixture
def broken(ckptspec_cases: CaseSelector, tmp_path: Path) -> Path:
    """Return a copy of a file whose payloads overlap."""
    case: Case = ckptspec_cases(format="safetensors", rule="SAFETENSORS-DAT-OVERLAP", verdict="invalid")[0]
    return case.copy_to(tmp_path)
