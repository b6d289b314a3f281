"""The log4j2 file of our sessions is where the JVM is told to look for it."""

from urllib.parse import urlparse

from tidelake.spark.sessions.session import log4j_file


def test_the_log_file_of_a_session_of_ours_exists(tmp_path):
    uri = log4j_file({"SPARK_CONF_DIR": str(tmp_path)})
    with open(urlparse(uri).path, encoding="utf-8") as file:
        assert "rootLogger" in file.read()


def test_a_users_own_log_file_wins(tmp_path):
    (tmp_path / "log4j2.properties").touch()
    assert log4j_file({"SPARK_CONF_DIR": str(tmp_path)}) is None
