"""A table as one file."""

import pytest

from tidelake.errors import NotFoundError
from tidelake.ui.report import report


def test_a_report_has_what_the_page_has(lake, orders):
    text = report(lake, "shop.orders")
    assert text.startswith("<!DOCTYPE html>")
    assert "too many runs" in text
    assert "mailer" in text
    assert 'id="find"' not in text


def test_of_no_table_there_is_no_report(lake):
    with pytest.raises(NotFoundError):
        report(lake, "shop.none")
