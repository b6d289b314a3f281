"""A class of ours is compiled once on a machine, and defined once in a JVM."""

import pytest

from tidelake.spark.jvm import java_class

TEXT = "public class {name} {{ public static int seven() {{ return 7; }} }}"


def java_text(name, minor="4.3"):
    return f"package {java_class.PACKAGE};\n" + TEXT.format(name=name)


@pytest.fixture
def beside(spark):
    return spark._jvm.java.lang.Class.forName(java_class.BESIDE)


@pytest.fixture
def kept(spark, beside, tmp_path, monkeypatch):
    """The code in a cache folder of the test alone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(java_class, "_KEPT", {})
    monkeypatch.setattr(java_class, "java_text", java_text)
    return java_class._kept_code(spark, beside)


def seven(spark, name):
    java_class.defined_class(spark, name)
    return getattr(spark._jvm, f"{java_class.PACKAGE}.{name}").seven()


def test_a_class_is_kept_and_defined_once(spark, kept):
    assert seven(spark, "TidelakeProbe1") == 7
    (path,) = kept.folder.iterdir()
    path.unlink()
    assert seven(spark, "TidelakeProbe1") == 7
    assert not list(kept.folder.iterdir())


def test_code_that_was_kept_is_not_compiled(spark, beside, kept, monkeypatch):
    name = "TidelakeProbe2"
    full_name = f"{java_class.PACKAGE}.{name}"
    code = java_class._compiled(spark, beside, full_name, java_text(name))
    kept.put(full_name, java_text(name), code)
    monkeypatch.setattr(java_class, "_compiled", None)
    assert seven(spark, name) == 7


def test_code_that_the_jvm_refuses_is_compiled_again(spark, kept):
    name = "TidelakeProbe3"
    full_name = f"{java_class.PACKAGE}.{name}"
    kept.put(full_name, java_text(name), b"no class")
    assert seven(spark, name) == 7
    assert kept.get(full_name, java_text(name)).startswith(b"\xca\xfe\xba\xbe")
