"""What the tests of local queries share."""

from __future__ import annotations

import pytest


@pytest.fixture
def lookup_dir(tmp_path):
    return tmp_path / "lookup"
