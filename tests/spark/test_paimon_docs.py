"""The statements of Paimon's pages on Spark run, or are refused in words of ours."""

import pytest
from paimon_statements import pages

import tidelake.spark
from tidelake.errors import TidelakeError

PAGES = {page.name: page for page in pages()}
SETTINGS = ("spark.sql.sources.partitionOverwriteMode", "spark.paimon.write.merge-schema")


@pytest.mark.share(2)
@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_the_statements_of_a_page(spark, tmp_path, page, capfd):
    lake = tidelake.spark.attach(spark, tmp_path / "warehouse")
    faults = []
    try:
        for said in page.statements:
            try:
                lake.sql(said.text).collect()
            except TidelakeError as error:
                if said.refused is None or said.refused not in str(error):
                    faults.append(f"{said.place}: {error}")
                if "org.apache" in str(error) or "SQLSTATE" in str(error):
                    faults.append(f"{said.place}: words of Java: {error}")
            else:
                if said.refused is not None:
                    faults.append(f"{said.place}: ran, and should be refused: {said.refused}")
    finally:
        for setting in SETTINGS:
            spark.conf.unset(setting)
    assert not faults, "\n".join(faults)
    assert "org.apache.spark" not in capfd.readouterr().err
