"""Compiled classes are kept for the next JVM, and never taken for those of other jars."""

import os

import pytest

from tidelake.spark.jvm.kept_code import KeptCode

NAME, TEXT, CODE = "org.apache.spark.One", "class One {}", b"\xca\xfe\xba\xbe and more"


@pytest.fixture
def jar(tmp_path):
    jars = tmp_path / "jars"
    jars.mkdir()
    (jars / "spark-catalyst_2.13-4.3.0.jar").write_bytes(b"one")
    jar = jars / "spark-sql_2.13-4.3.0.jar"
    jar.write_bytes(b"two")
    return jar


@pytest.fixture
def kept(jar, tmp_path):
    return opened(jar, tmp_path)


def opened(jar, tmp_path, *, spark="4.3.0", java="17.0.1"):
    return KeptCode.beside(jar, spark=spark, java=java, folder=tmp_path / "cache" / "java")


def test_what_was_put_is_got_by_the_next_process(kept, jar, tmp_path):
    assert kept.get(NAME, TEXT) is None
    kept.put(NAME, TEXT, CODE)
    assert opened(jar, tmp_path).get(NAME, TEXT) == CODE
    assert [path.suffix for path in (tmp_path / "cache" / "java").iterdir()] == [".code"]


def test_another_text_name_or_version_is_another_file(kept, jar, tmp_path):
    kept.put(NAME, TEXT, CODE)
    assert kept.get(NAME, TEXT + "\n") is None
    assert kept.get("org.apache.spark.Two", TEXT) is None
    assert opened(jar, tmp_path, spark="4.3.1").get(NAME, TEXT) is None
    assert opened(jar, tmp_path, java="21").get(NAME, TEXT) is None


@pytest.mark.parametrize("change", ["size", "time", "one more"])
def test_other_jars_are_other_code(kept, jar, tmp_path, change):
    kept.put(NAME, TEXT, CODE)
    other = jar.with_name("spark-catalyst_2.13-4.3.0.jar")
    if change == "size":
        other.write_bytes(b"patched")
    elif change == "time":
        os.utime(other, ns=(1, 1))
    else:
        jar.with_name("spark-connect_2.13-4.3.0.jar").write_bytes(b"")
    assert opened(jar, tmp_path).get(NAME, TEXT) is None


@pytest.mark.parametrize("length", [0, 5, 40])
def test_a_damaged_file_is_compiled_again(kept, tmp_path, length):
    kept.put(NAME, TEXT, CODE)
    (path,) = (tmp_path / "cache" / "java").iterdir()
    path.write_bytes(path.read_bytes()[:length])
    assert kept.get(NAME, TEXT) is None
    kept.put(NAME, TEXT, CODE)
    assert kept.get(NAME, TEXT) == CODE


def test_the_folder_is_the_users_alone(kept, tmp_path):
    kept.put(NAME, TEXT, CODE)
    assert (tmp_path / "cache" / "java").stat().st_mode & 0o077 == 0


def test_a_folder_that_takes_no_file_keeps_nothing(jar, tmp_path):
    (tmp_path / "cache").write_bytes(b"a file")
    kept = opened(jar, tmp_path)
    kept.put(NAME, TEXT, CODE)
    assert kept.get(NAME, TEXT) is None


@pytest.mark.parametrize("missing", [None, "elsewhere/spark-sql.jar"])
def test_jars_that_are_not_on_this_disk_keep_nothing(tmp_path, missing):
    jar = None if missing is None else tmp_path / missing
    kept = opened(jar, tmp_path)
    kept.put(NAME, TEXT, CODE)
    assert kept.get(NAME, TEXT) is None
    assert not (tmp_path / "cache").exists()


def test_the_folder_follows_the_users_cache(jar, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
    KeptCode.beside(jar, spark="4.3.0", java="17").put(NAME, TEXT, CODE)
    assert len(list((tmp_path / "own" / "tidelake" / "java").iterdir())) == 1
