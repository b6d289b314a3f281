"""The Spark that is installed has the private names that Tidelake uses."""

from __future__ import annotations

import re

import pytest

from tidelake.spark.jvm.java_class import PACKAGE, defined_class
from tidelake.spark.jvm.private_names import private_names
from tidelake.spark.read.listed_files import define_listed_files
from tidelake.spark.versions import MINORS, minor_of

LATER = {"4.0": {"apply$default$22"}, "4.1": {"apply$default$22"}}
"""Members that our Java names for later versions alone."""


NAME = re.compile(r"([\w$]+)(?:\(|$)")
"""Of a method or field as Java prints it: ``public int org.apache.Some.name(int) throws Other``."""


def members_of(kind, text_of):
    """Names of a class's methods and fields, inherited ones too; a call for each array of them."""
    found = {"new"} if len(kind.getDeclaredConstructors()) else set()
    while kind is not None:
        for members in (kind.getDeclaredMethods(), kind.getMethods(), kind.getDeclaredFields()):
            printed = text_of(members)[len("Array(") : -1].split(", ")
            found |= {NAME.search(one)[1] for one in printed if one}
        kind = kind.getSuperclass()
    return found


@pytest.mark.parametrize("minor", MINORS)
def test_the_table_of_private_names_is_true(spark, minor):
    if minor_of(spark.version) != minor:
        pytest.skip(f"this is Spark {spark.version}: `make sparks` looks at the others")
    find = spark._jvm.java.lang.Class.forName
    text_of = spark._jvm.scala.runtime.ScalaRunTime.stringOf
    gone = {}
    for one in private_names():
        if minor in one.versions:
            lacking = (
                set(one.members) - members_of(find(one.name), text_of) - LATER.get(minor, set())
            )
            if lacking:
                gone[one.name] = lacking
    assert not gone


def test_classes_are_defined_once_in_a_jvm(spark):
    define_listed_files(spark)
    first = defined_class(spark, "TidelakeMask")
    assert first.getName() == f"{PACKAGE}.TidelakeMask"
    assert defined_class(spark, "TidelakeMask").equals(first)
