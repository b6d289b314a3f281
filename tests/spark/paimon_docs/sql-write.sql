--! page: SQL Write
--! setup:
CREATE TABLE m (id INT, pt STRING) PARTITIONED BY (pt); CREATE TABLE o (id INT, pt STRING); INSERT INTO o VALUES (9, 'p9');
INSERT INTO m SELECT id, pt FROM o;
INSERT OVERWRITE m SELECT id, pt FROM o;
INSERT OVERWRITE m PARTITION (pt = 'p1') SELECT id FROM o;
--! setup:
DROP TABLE m;
CREATE TABLE m (id INT, pt STRING) PARTITIONED BY (pt);
INSERT INTO m VALUES (1, 'p1'), (2, 'p2');
INSERT OVERWRITE m VALUES (3, 'p1');
INSERT OVERWRITE m PARTITION (pt) VALUES (3, 'p1');
SELECT * FROM m;
INSERT OVERWRITE m PARTITION (pt = 'p1') VALUES (3);
SET spark.sql.sources.partitionOverwriteMode=dynamic;
TRUNCATE TABLE m;
TRUNCATE TABLE m PARTITION (pt = '2025-01-01');
CREATE TABLE t (id INT, s STRUCT<c1: INT, c2: STRING>, name STRING) TBLPROPERTIES ('primary-key' = 'id', 'merge-engine' = 'deduplicate');
UPDATE t SET name = 'a_new' WHERE id = 1;
UPDATE t SET s.c2 = 'a_new' WHERE s.c1 = 1;
DELETE FROM m WHERE id = 1;
--! setup:
CREATE TABLE target (a INT, b INT, c STRING) TBLPROPERTIES ('primary-key' = 'a'); CREATE TABLE source (a INT, b INT, c STRING) TBLPROPERTIES ('primary-key' = 'a');
MERGE INTO target USING source ON target.a = source.a WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
MERGE INTO target USING source ON target.a = source.a WHEN MATCHED AND target.a = 5 THEN UPDATE SET b = source.b + target.b WHEN MATCHED AND source.c > 'c2' THEN UPDATE SET * WHEN MATCHED THEN DELETE WHEN NOT MATCHED AND c > 'c9' THEN INSERT (a, b, c) VALUES (a, b * 1.1, c) WHEN NOT MATCHED THEN INSERT *;
SET `spark.paimon.write.merge-schema` = true;
CREATE TABLE ms (a INT, b STRING);
INSERT INTO ms VALUES (1, '1'), (2, '2');
INSERT INTO ms BY NAME SELECT 3 AS a, '3' AS b, 3 AS c;
--! refused: COPY INTO
COPY INTO default.m FROM '/data/csv_files/' FILE_FORMAT = (TYPE = CSV);
--! refused: COPY INTO
COPY INTO default.m (id) FROM '/data/new/' FILE_FORMAT = (TYPE = CSV, SKIP_HEADER = 1);
--! refused: COPY INTO
COPY INTO default.m FROM '/data/logs/' FILE_FORMAT = (TYPE = CSV, FIELD_DELIMITER = '|', NULL_IF = ('NULL', '\\N', '')) PATTERN = '.*\.csv' FORCE = FALSE;
--! refused: COPY INTO
COPY INTO default.m FROM '/data/json_files/' FILE_FORMAT = (TYPE = JSON);
--! refused: COPY INTO
COPY INTO default.m FROM '/data/events/' FILE_FORMAT = (TYPE = JSON, MULTI_LINE = TRUE);
--! refused: COPY INTO
COPY INTO default.m FROM '/data/parquet_files/' FILE_FORMAT = (TYPE = PARQUET);
--! refused: COPY INTO
COPY INTO default.m FROM '/data/lake/' FILE_FORMAT = (TYPE = PARQUET) PATTERN = '.*\.parquet' FORCE = FALSE;
--! refused: COPY INTO
COPY INTO '/export/m/' FROM default.m FILE_FORMAT = (TYPE = CSV, HEADER = TRUE, FIELD_DELIMITER = ',') OVERWRITE = TRUE;
--! refused: COPY INTO
COPY INTO '/export/some/' FROM (SELECT id, pt FROM default.m WHERE id = 1) FILE_FORMAT = (TYPE = CSV, HEADER = TRUE);
--! refused: COPY INTO
COPY INTO '/export/e/' FROM default.m FILE_FORMAT = (TYPE = JSON) OVERWRITE = TRUE;
--! refused: COPY INTO
COPY INTO '/export/r/' FROM (SELECT * FROM default.m WHERE pt > '2024-01-01') FILE_FORMAT = (TYPE = JSON);
--! refused: COPY INTO
COPY INTO '/export/d/' FROM default.m FILE_FORMAT = (TYPE = PARQUET) OVERWRITE = TRUE;
--! refused: COPY INTO
COPY INTO '/export/c/' FROM default.m FILE_FORMAT = (TYPE = PARQUET, COMPRESSION = GZIP) OVERWRITE = TRUE;
--! refused: COPY INTO
COPY INTO '/export/s/' FROM (SELECT pt, COUNT(*) AS cnt FROM default.m GROUP BY pt) FILE_FORMAT = (TYPE = PARQUET);
