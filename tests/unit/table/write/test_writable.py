"""What the check before each write costs."""

from __future__ import annotations

from tidelake.options import Options, declared
from tidelake.table.write.writable import check_writable


def test_a_second_write_asks_no_option_again_whether_it_is_supported(keyed, monkeypatch):
    asked = []
    get, is_set = Options.get, Options.is_set
    monkeypatch.setattr(Options, "get", lambda self, o: asked.append(o.key) or get(self, o))
    monkeypatch.setattr(Options, "is_set", lambda self, o: asked.append(o.key) or is_set(self, o))
    keyed.write([{"k": 1, "v": "a", "n": 1}])
    asked.clear()
    keyed.write([{"k": 2, "v": "b", "n": 2}])
    assert len(set(asked)) < 70  # of 271
    asked.clear()
    check_writable(keyed.handle)
    retention = declared.SNAPSHOT_NUM_RETAINED_MAX.key  # only the check of support looks at it
    assert retention not in asked
    check_writable(keyed.handle.with_options(keyed.handle.options.updated({"num-levels": "9"})))
    assert retention in asked
