from __future__ import annotations

import pytest

import tidelake


@pytest.fixture
def catalog(tmp_path):
    return tidelake.open(tmp_path / "warehouse")
