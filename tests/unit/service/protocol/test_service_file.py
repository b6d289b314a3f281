import json

import pytest

from tidelake.errors import CorruptError, NotFoundError, UnsupportedError
from tidelake.fileio import LocalFileIO
from tidelake.service.protocol.service_file import (
    ServiceFile,
    put_service_file,
    read_service_file,
    remove_service_file,
    service_file_content,
    service_file_path,
    write_service_file,
)

FIRST = ServiceFile("127.0.0.1:1", "first")
SECOND = ServiceFile("127.0.0.1:2", "second", tls=True)


@pytest.fixture
def place(tmp_path):
    (tmp_path / "t").mkdir()
    return LocalFileIO(), str(tmp_path / "t")


def test_the_last_service_that_registers_is_found(place):
    fileio, location = place
    assert read_service_file(fileio, location) is None
    write_service_file(fileio, location, FIRST)
    assert read_service_file(fileio, location) == FIRST
    write_service_file(fileio, location, SECOND)
    assert read_service_file(fileio, location) == SECOND


def test_its_name_and_content_are_a_contract(place):
    fileio, location = place
    write_service_file(fileio, location, FIRST)
    path = f"{location}/service/service-tidelake-query"
    assert service_file_path(location) == path
    assert json.loads(fileio.read_bytes(path)) == {
        "protocol": 1, "address": "127.0.0.1:1", "serviceId": "first", "tls": False,
    }  # fmt: skip


def test_a_service_removes_only_its_own_file(place):
    fileio, location = place
    write_service_file(fileio, location, FIRST)
    write_service_file(fileio, location, SECOND)
    assert not remove_service_file(fileio, location, "first")
    assert remove_service_file(fileio, location, "second")
    assert read_service_file(fileio, location) is None
    assert not remove_service_file(fileio, location, "second")


def test_only_the_file_that_was_seen_is_replaced(place):
    fileio, location = place
    assert put_service_file(fileio, location, FIRST)
    seen = service_file_content(fileio, location)
    assert not put_service_file(fileio, location, SECOND)
    write_service_file(fileio, location, SECOND)  # another one's, meanwhile
    assert not put_service_file(fileio, location, FIRST, over=seen)
    assert read_service_file(fileio, location) == SECOND
    assert put_service_file(fileio, location, FIRST, over=service_file_content(fileio, location))
    assert read_service_file(fileio, location) == FIRST
    assert remove_service_file(fileio, location, "first")
    assert put_service_file(fileio, location, SECOND, over=seen)


def test_a_dropped_table_is_not_made_anew(tmp_path):
    with pytest.raises(NotFoundError):
        write_service_file(LocalFileIO(), str(tmp_path / "gone"), FIRST)
    assert not (tmp_path / "gone").exists()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"protocol": 1}', '{"protocol": "x"}', "\xff"])
def test_another_file_under_its_name_is_refused(place, text):
    fileio, location = place
    fileio.replace(service_file_path(location), text.encode("latin-1"))
    with pytest.raises(CorruptError, match="does not name an address server") as caught:
        read_service_file(fileio, location)
    assert caught.value.kind == "service_file"
    assert not remove_service_file(fileio, location, "first")


@pytest.mark.parametrize(("protocol", "word"), [(2, "newer"), (0, "older")])
def test_another_protocol_is_refused(place, protocol, word):
    fileio, location = place
    write_service_file(fileio, location, ServiceFile("h:1", "x", protocol=protocol))
    with pytest.raises(UnsupportedError, match=f"Use a {word} Tidelake") as caught:
        read_service_file(fileio, location)
    assert caught.value.kind == "service_protocol"
