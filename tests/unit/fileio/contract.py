"""What every FileIO must do; a test module inherits the class and gives its own ``files``."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from tidelake.errors import (
    AlreadyExistsError,
    ClosedError,
    CorruptError,
    InvalidInputError,
    NotFoundError,
    StorageError,
)


class FileIOContract:
    """The inheriting class gives fixtures ``files`` (the FileIO) and ``root`` (an empty place)."""

    def test_what_was_written_once_is_read_back(self, files, root):
        files.write_once(f"{root}/a/b/c", b"hello")
        assert files.read_bytes(f"{root}/a/b/c") == b"hello"
        assert files.size(f"{root}/a/b/c") == 5
        assert files.exists(f"{root}/a/b/c")
        assert files.exists(f"{root}/a/b")

    def test_a_written_file_is_never_written_over(self, files, root):
        files.write_once(f"{root}/a", b"1")
        with pytest.raises(AlreadyExistsError, match=f"{root}/a"):
            files.write_once(f"{root}/a", b"2")
        with pytest.raises(AlreadyExistsError):
            files.open_output(f"{root}/a")
        assert files.read_bytes(f"{root}/a") == b"1"

    def test_the_second_put_changes_nothing(self, files, root):
        assert files.put_if_absent(f"{root}/s/snapshot-1", b"one") is True
        assert files.put_if_absent(f"{root}/s/snapshot-1", b"two") is False
        assert files.read_bytes(f"{root}/s/snapshot-1") == b"one"
        assert [s.name for s in files.list_dir(f"{root}/s")] == ["snapshot-1"]

    def test_one_of_many_puts_wins_and_its_bytes_are_whole(self, files, root):
        data = [bytes([i]) * 10_000 for i in range(8)]
        won: list[int] = []

        def put(i: int) -> None:
            if files.put_if_absent(f"{root}/race", data[i]):
                won.append(i)

        threads = [threading.Thread(target=put, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
        assert files.read_bytes(f"{root}/race") == data[won[0]]
        assert len(files.list_dir(root)) == 1

    def test_put_of_empty_data_makes_an_empty_file(self, files, root):
        assert files.put_if_absent(f"{root}/e", b"")
        assert files.read_bytes(f"{root}/e") == b""

    def test_replace_writes_over(self, files, root):
        files.replace(f"{root}/hint", b"1")
        files.replace(f"{root}/hint", b"22")
        assert files.read_bytes(f"{root}/hint") == b"22"
        assert len(files.list_dir(root)) == 1

    def test_a_directory_that_is_held_takes_files(self, files, root):
        files.make_dirs(f"{root}/t")
        with files.open_dir(f"{root}/t/snapshot", make=True) as held:
            assert held.path == f"{root}/t/snapshot"
            assert files.put_if_absent(f"{root}/t/snapshot/a", b"1", within=held) is True
            assert files.put_if_absent(f"{root}/t/snapshot/a", b"2", within=held) is False
            files.replace(f"{root}/t/snapshot/hint", b"1", within=held)
            files.replace(f"{root}/t/snapshot/hint", b"2", within=held)
            assert files.exists(f"{root}/t/snapshot/a", within=held)
            assert not files.exists(f"{root}/t/snapshot/b", within=held)
            assert files.delete(f"{root}/t/snapshot/a", within=held) is True
            assert files.delete(f"{root}/t/snapshot/a", within=held) is False
        held.close()
        found = {s.name for s in files.list_dir(f"{root}/t/snapshot")}
        assert found == {"hint"}
        assert files.read_bytes(f"{root}/t/snapshot/hint") == b"2"

    def test_a_directory_is_held_where_there_is_one_or_its_parent(self, files, root):
        files.make_dirs(root)
        for make in (False, True):
            with pytest.raises(NotFoundError, match="none") as caught:
                files.open_dir(f"{root}/none/snapshot", make=make)
            assert caught.value.kind == "directory_not_found"
        with pytest.raises(NotFoundError):
            files.open_dir(f"{root}/snapshot")
        assert files.list_dir(root) == []
        files.open_dir(f"{root}/snapshot", make=True).close()
        files.open_dir(f"{root}/snapshot", make=True).close()
        files.open_dir(f"{root}/snapshot").close()

    def test_nothing_is_put_into_a_directory_that_was_removed(self, files, root):
        """Nor into the one that has its path by then, as that of a table created anew."""
        files.make_dirs(f"{root}/t/snapshot")
        held = files.open_dir(f"{root}/t/snapshot")
        files.put_if_absent(f"{root}/t/snapshot/old", b"1", within=held)
        files.delete_dir(f"{root}/t")
        for path in (f"{root}/t/snapshot/a", f"{root}/t/snapshot/old"):
            with pytest.raises(NotFoundError, match="t/snapshot"):
                files.put_if_absent(path, b"1", within=held)
            with pytest.raises(NotFoundError, match="t/snapshot"):
                files.replace(path, b"1", within=held)
        assert files.list_dir(root) == []
        files.write_once(f"{root}/t/snapshot/old", b"theirs")
        for name in ("a", "old"):
            with pytest.raises(NotFoundError):
                files.put_if_absent(f"{root}/t/snapshot/{name}", b"1", within=held)
            self.check_nothing_is_in_it(files, f"{root}/t/snapshot/{name}", held)
        self.check_nothing_is_deleted(files, f"{root}/t/snapshot/old", held)
        held.close()
        assert [s.name for s in files.list_dir(f"{root}/t/snapshot")] == ["old"]
        assert files.read_bytes(f"{root}/t/snapshot/old") == b"theirs"

    def check_nothing_is_in_it(self, files, path, held):
        """Of a directory that was removed while it was held."""
        assert not files.exists(path, within=held)

    def check_nothing_is_deleted(self, files, path, held):
        """Nor there."""
        assert files.delete(path, within=held) is False

    def test_a_directory_that_is_held_is_the_same_under_another_name(self, files, root):
        files.make_dirs(f"{root}/t/snapshot")
        with files.open_dir(f"{root}/t/snapshot") as held:
            files.move_dir(f"{root}/t", f"{root}/u")
            files.make_dirs(f"{root}/t/snapshot")
            assert files.put_if_absent(f"{root}/t/snapshot/a", b"1", within=held) is True
            assert files.exists(f"{root}/t/snapshot/a", within=held)
        assert files.read_bytes(f"{root}/u/snapshot/a") == b"1"
        assert files.list_dir(f"{root}/t/snapshot") == []

    def test_ranges_are_exact_or_refused(self, files, root):
        files.write_once(f"{root}/a", b"0123456789")
        assert files.read_range(f"{root}/a", 3, 4) == b"3456"
        with pytest.raises(CorruptError, match=f"{root}/a"):
            files.read_range(f"{root}/a", 8, 4)

    def test_several_ranges_come_in_their_order_each_whole(self, files, root):
        files.write_once(f"{root}/a", b"0123456789")
        found = files.read_ranges(f"{root}/a", [(7, 2), (0, 10), (3, 1), (0, 10)])
        assert [bytes(part) for part in found] == [b"78", b"0123456789", b"3", b"0123456789"]
        assert files.read_ranges(f"{root}/a", []) == []

    def test_a_file_of_many_writes_is_read_anywhere(self, files, root):
        """Its ranges cross what a storage cuts it into: blocks of HDFS, parts in memory."""
        data = bytes(range(256)) * 10_000
        output = files.open_output(f"{root}/big")
        for begin in range(0, len(data), 300_000):
            assert output.write(data[begin : begin + 300_000]) == len(data[begin:][:300_000])
        assert output.tell() == len(data)
        output.close()
        block = 1 << 20
        ranges = [(block - 5, 10), (0, 1), (len(data) - 3, 3), (5, 0), (block, block)]
        found = files.read_ranges(f"{root}/big", ranges)
        assert [bytes(part) for part in found] == [data[o : o + n] for o, n in ranges]
        with files.open_input(f"{root}/big") as source:
            source.seek(block - 2)
            assert source.read(4) == data[block - 2 : block + 2]
            source.seek(-5, 2)
            assert source.read() == data[-5:]
            source.seek(10)
            assert source.read() == data[10:]
        files.write_once(f"{root}/empty", b"")
        with files.open_input(f"{root}/empty") as source:
            assert (source.size(), source.read()) == (0, b"")

    def test_odd_names_are_themselves(self, files, root):
        names = ["a b", "ü", "x%2Fy", "p=1", "q?", "h#", "+", "'", "*", "[a]", "~", "k=a%20b"]
        names += ["(1)", "&;,@!$"]
        for name in names:
            files.write_once(f"{root}/odd/{name}/f", name.encode())
        assert sorted(s.name for s in files.list_dir(f"{root}/odd")) == sorted(names)
        for name in names:
            assert files.read_bytes(f"{root}/odd/{name}/f") == name.encode()
        files.delete_dir(f"{root}/odd")
        assert files.list_dir(root) == []

    def test_one_short_range_of_several_is_refused(self, files, root):
        files.write_once(f"{root}/a", b"0123456789")
        for short in ((8, 4), (10, 1), (50, 2)):
            with pytest.raises(CorruptError, match=f"{root}/a") as caught:
                files.read_ranges(f"{root}/a", [(0, 2), short])
            assert caught.value.kind == "file_truncated"
        with pytest.raises(NotFoundError, match=f"{root}/none"):
            files.read_ranges(f"{root}/none", [(0, 2)])

    def test_a_storage_says_whether_it_waits(self, files):
        assert files.is_remote in {True, False}

    def test_a_file_beyond_the_bound_is_refused_by_its_name(self, files, root):
        files.write_once(f"{root}/a", b"12345")
        assert files.read_bytes(f"{root}/a", bytes_max=5) == b"12345"
        with pytest.raises(CorruptError, match=r"/a has 5 bytes.* at most 4") as caught:
            files.read_bytes(f"{root}/a", bytes_max=4)
        assert caught.value.kind == "file_too_large"

    def test_a_missing_file_is_not_found_by_its_path(self, files, root):
        for read in (files.read_bytes, files.size, files.open_input):
            with pytest.raises(NotFoundError, match=f"{root}/none") as caught:
                read(f"{root}/none")
            assert caught.value.kind == "file_not_found"
            assert caught.value.context["path"] == f"{root}/none"
        with pytest.raises(NotFoundError):
            files.read_range(f"{root}/none", 0, 1)
        assert not files.exists(f"{root}/none")
        assert not files.exists(f"{root}/none/below")

    def test_listing_tells_kinds_and_sizes(self, files, root):
        files.write_once(f"{root}/d/file", b"123")
        files.write_once(f"{root}/d/sub/x", b"1")
        files.make_dirs(f"{root}/d/empty")
        found = {s.name: (s.size_bytes, s.is_dir) for s in files.list_dir(f"{root}/d")}
        assert found == {"file": (3, False), "sub": (0, True), "empty": (0, True)}

    def test_listing_a_missing_directory_is_empty(self, files, root):
        assert files.list_dir(f"{root}/none") == []

    def test_listing_a_file_is_refused(self, files, root):
        files.write_once(f"{root}/a", b"1")
        with pytest.raises(StorageError):
            files.list_dir(f"{root}/a")

    def test_delete_tells_whether_there_was_something(self, files, root):
        files.write_once(f"{root}/a", b"1")
        assert files.delete(f"{root}/a") is True
        assert files.delete(f"{root}/a") is False
        assert files.list_dir(root) == []
        with pytest.raises(NotFoundError):
            files.read_bytes(f"{root}/a")

    def test_delete_of_expected_bytes_leaves_others(self, files, root):
        files.make_dirs(f"{root}/t")
        for i, more in enumerate(({}, {"reused": True})):
            path = f"{root}/t/{i}"
            files.write_once(path, b"theirs")
            assert files.delete(path, expected=b"ours", **more) is False
            with files.open_dir(f"{root}/t") as held:
                assert files.delete(path, within=held, expected=b"ours", **more) is False
                assert files.read_bytes(path) == b"theirs"
                assert files.delete(path, within=held, expected=b"theirs", **more) is True
                assert files.delete(path, within=held, expected=b"theirs", **more) is False
        assert files.list_dir(f"{root}/t") == []

    def test_delete_of_a_directory_is_refused(self, files, root):
        files.make_dirs(f"{root}/d")
        with pytest.raises(StorageError):
            files.delete(f"{root}/d")

    def test_move_dir_takes_all_below_and_writes_over_nothing(self, files, root):
        files.write_once(f"{root}/d/a", b"1")
        files.write_once(f"{root}/d/e/b", b"22")
        files.write_once(f"{root}/de", b"beside")
        files.make_dirs(f"{root}/taken")
        with pytest.raises(AlreadyExistsError):
            files.move_dir(f"{root}/d", f"{root}/taken")
        with pytest.raises(NotFoundError):
            files.move_dir(f"{root}/none", f"{root}/x")
        assert files.read_bytes(f"{root}/d/e/b") == b"22"
        files.move_dir(f"{root}/d", f"{root}/new/place")
        assert not files.exists(f"{root}/d")
        assert sorted(s.name for s in files.list_dir(f"{root}/new/place")) == ["a", "e"]
        assert files.read_bytes(f"{root}/new/place/e/b") == b"22"
        assert files.read_bytes(f"{root}/de") == b"beside"
        files.move_dir(f"{root}/new/place", f"{root}/d")
        assert sorted(s.name for s in files.list_dir(root)) == ["d", "de", "new", "taken"]
        assert files.list_dir(f"{root}/new") == []

    def test_a_copy_within_has_the_bytes_and_outlives_the_source(self, files, root):
        files.write_once(f"{root}/a", b"abc")
        if not files.copy_within(f"{root}/a", f"{root}/d/b"):
            assert not files.exists(f"{root}/d/b")
            return
        files.delete(f"{root}/a")
        assert files.read_bytes(f"{root}/d/b") == b"abc"
        with pytest.raises(NotFoundError):
            files.copy_within(f"{root}/a", f"{root}/c")
        assert files.storage_id == files.storage_id

    def test_delete_dir_takes_all_below(self, files, root):
        files.write_once(f"{root}/d/e/f", b"1")
        files.write_once(f"{root}/keep", b"1")
        files.delete_dir(f"{root}/d")
        files.delete_dir(f"{root}/d")
        assert [s.name for s in files.list_dir(root)] == ["keep"]
        assert not files.exists(f"{root}/d/e/f")

    def test_make_dirs_twice_is_fine_but_not_over_a_file(self, files, root):
        files.make_dirs(f"{root}/a/b")
        files.make_dirs(f"{root}/a/b")
        files.write_once(f"{root}/f", b"1")
        with pytest.raises(StorageError):
            files.make_dirs(f"{root}/f")
        with pytest.raises(StorageError):
            files.write_once(f"{root}/f/below", b"1")

    def test_an_output_file_is_a_sink_of_arrow(self, files, root):
        table = pa.table({"a": list(range(100_000))})
        output = files.open_output(f"{root}/out/t.arrow")
        with (
            pa.PythonFile(output, mode="w") as sink,
            pa.ipc.new_file(sink, table.schema) as writer,
        ):
            writer.write_table(table)
        output.close()
        assert output.closed
        assert output.tell() == files.size(f"{root}/out/t.arrow")
        with files.open_input(f"{root}/out/t.arrow") as source:
            assert source.size() == output.tell()
            assert pa.ipc.open_file(source).read_all().equals(table)

    def test_a_closed_output_takes_no_more_and_cannot_be_aborted(self, files, root):
        output = files.open_output(f"{root}/o")
        output.write(b"abc")
        output.close()
        output.close()
        output.abort()
        assert files.read_bytes(f"{root}/o") == b"abc"
        with pytest.raises(ClosedError):
            output.write(b"d")

    def test_an_aborted_output_leaves_nothing_and_frees_the_name(self, files, root):
        output = files.open_output(f"{root}/o")
        output.write(b"abc")
        output.abort()
        output.abort()
        output.close()
        assert files.list_dir(root) == []
        with pytest.raises(ClosedError):
            output.write(b"d")
        files.write_once(f"{root}/o", b"new")

    def test_the_name_of_an_open_output_is_taken(self, files, root):
        output = files.open_output(f"{root}/o")
        with pytest.raises(AlreadyExistsError):
            files.open_output(f"{root}/o")
        assert files.put_if_absent(f"{root}/o", b"x") is False
        output.abort()

    @pytest.mark.parametrize("path", ["relative/a", "", "/a/../b", "/a\0b"])
    def test_a_path_that_is_not_absolute_and_plain_is_refused(self, files, path):
        for call in (files.read_bytes, files.exists, files.list_dir, files.open_output):
            with pytest.raises(InvalidInputError):
                call(path)
