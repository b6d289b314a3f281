--! page: Auxiliary
--! setup:
CREATE TABLE T (k INT, col1 STRING); CREATE TABLE T1 (k INT, col1 STRING); CREATE TABLE T2 (k INT, col1 STRING); CREATE TABLE m (col1 INT, dt STRING) PARTITIONED BY (dt); INSERT INTO T VALUES (1, 'a'); INSERT INTO T1 VALUES (1, 'a'); INSERT INTO T1 VALUES (2, 'b'); INSERT INTO T2 VALUES (1, 'a'); INSERT INTO m VALUES (1, '20230817');
SET spark.sql.sources.partitionOverwriteMode=dynamic;
SET spark.paimon.file.block-size=512M;
RESET spark.paimon.file.block-size;
SET spark.paimon.*.default.T.scan.snapshot-id=1;
SELECT * FROM default.T;
SET spark.paimon.*.*.T.scan.snapshot-id=1;
SELECT * FROM default.T;
SET spark.paimon.scan.snapshot-id=1;
SET spark.paimon.*.default.T1.scan.snapshot-id=2;
SELECT * FROM default.T1 JOIN default.T2 ON T1.k = T2.k;
--! setup:
RESET spark.paimon.*.default.T.scan.snapshot-id; RESET spark.paimon.*.*.T.scan.snapshot-id; RESET spark.paimon.scan.snapshot-id; RESET spark.paimon.*.default.T1.scan.snapshot-id;
DESCRIBE TABLE m;
DESCRIBE TABLE EXTENDED m;
SHOW CREATE TABLE m;
SHOW COLUMNS FROM m;
SHOW PARTITIONS m;
SHOW PARTITIONS m PARTITION (dt='20230817');
--! refused: SHOW TABLE EXTENDED
SHOW TABLE EXTENDED IN default LIKE 'test*';
--! refused: SHOW TABLE EXTENDED
SHOW TABLE EXTENDED IN default LIKE 'm' PARTITION(dt = '2024');
SHOW VIEWS;
SHOW VIEWS LIKE 'test*';
ANALYZE TABLE m COMPUTE STATISTICS;
ANALYZE TABLE m COMPUTE STATISTICS FOR COLUMNS col1;
ANALYZE TABLE m COMPUTE STATISTICS FOR ALL COLUMNS;
REFRESH TABLE m;
