"""What a notebook shows of an error: the caller's own lines and the message, not our frames."""

from __future__ import annotations

import re
import sys
from types import ModuleType, SimpleNamespace

import pyarrow as pa
import pytest

import tidelake
from tidelake import InvalidInputError, NotFoundError, StorageError

ROW = {"k": 1, "v": "a"}


@pytest.fixture
def table(tmp_path):
    catalog = tidelake.open(tmp_path)
    columns = pa.schema({"k": pa.int64(), "v": pa.string()})
    return catalog.create_table("db.t", columns, primary_keys=["k"], options={"bucket": 1})


@pytest.fixture
def shell(monkeypatch):
    """Stands for IPython's shell: keeps what it is asked to format."""
    asked = []

    def structured_traceback(kind, error, frames, tb_offset):
        asked.append((kind, error, frames, tb_offset))
        return ["shown"]

    formatter = SimpleNamespace(mode="Context", structured_traceback=structured_traceback)
    module = ModuleType("IPython")
    module.get_ipython = lambda: SimpleNamespace(InteractiveTB=formatter)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", module)
    return SimpleNamespace(formatter=formatter, asked=asked)


def modules(frames):
    found = []
    while frames is not None:
        found.append(frames.tb_frame.f_globals["__name__"])
        frames = frames.tb_next
    return found


def test_a_callers_mistake_is_shown_with_the_callers_lines_alone(table, monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    with pytest.raises(InvalidInputError) as caught:
        table.write([{**ROW, "vv": 2}])
    text = "".join(caught.value._render_traceback_())
    assert re.findall(r'File ".*?([^/]+\.py)"', text) == ["test_errors.py"]
    assert 'table.write([{**ROW, "vv": 2}])' in text
    assert "Did you mean 'v'?" in text.splitlines()[-1]
    assert len(text.splitlines()) < 8


def test_causes_of_ours_are_left_out_and_stay_with_the_error(table, shell):
    with pytest.raises(NotFoundError) as caught:
        table.to_arrow(snapshot_id=99)
    assert caught.value._render_traceback_() == ["shown"]
    [(kind, shown, frames, offset)] = shell.asked
    assert (kind, str(shown), offset) == (NotFoundError, str(caught.value), 1)
    assert (shown.kind, shown.context) == (caught.value.kind, caught.value.context)
    assert shown.__cause__ is None
    assert shown.__context__ is None
    assert caught.value.__cause__ is not None
    assert modules(frames) == [__name__]
    assert "tidelake.metadata.log.snapshot_log" in modules(caught.value.__cause__.__traceback__)


def test_functions_of_the_caller_that_we_call_are_shown(table, shell):
    def rows():
        yield pa.record_batch([[1], ["a"]], ["k", "v"])
        table.to_arrow(columns=["nothing"])

    with pytest.raises(NotFoundError) as caught:
        table.write(rows())
    caught.value._render_traceback_()
    names, frames = [], shell.asked[0][2]
    while frames is not None:
        names.append(frames.tb_frame.f_code.co_name)
        frames = frames.tb_next
    assert names == ["test_functions_of_the_caller_that_we_call_are_shown", "rows"]


def test_verbose_tracebacks_show_all(table, shell):
    shell.formatter.mode = "Verbose"
    with pytest.raises(NotFoundError) as caught:
        table.to_arrow(snapshot_id=99)
    caught.value._render_traceback_()
    [(_, shown, frames, _)] = shell.asked
    assert shown is caught.value
    assert "tidelake.table.handle.time_travel" in modules(frames)


def test_what_is_not_the_callers_mistake_shows_all(shell):
    with pytest.raises(StorageError) as caught:
        raise StorageError("The disk is full.") from OSError(28, "No space left on device")
    caught.value._render_traceback_()
    assert shell.asked[0][1] is caught.value
