-- MERGE INTO tables with a primary key.
CREATE TABLE src (k INT, v STRING, n INT);
INSERT INTO src VALUES (1, 'one', 10), (2, NULL, 20), (5, 'five', 0), (6, 'six', -1), (NULL, 'none', 3);

-- deduplicate, all kinds of clauses
CREATE TABLE t (k INT NOT NULL, v STRING, n INT) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '2');
INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3), (4, 'd', 4);
MERGE INTO t USING src ON t.k = src.k WHEN MATCHED THEN UPDATE SET v = src.v;
SELECT * FROM t;
MERGE INTO t USING (SELECT * FROM src WHERE k IS NOT NULL) s ON t.k = s.k
WHEN MATCHED AND s.n >= 20 THEN DELETE
WHEN MATCHED THEN UPDATE SET *
WHEN NOT MATCHED AND s.n < 0 THEN INSERT (k, n) VALUES (s.k, s.n * 100)
WHEN NOT MATCHED THEN INSERT *;
SELECT * FROM t;
SELECT snapshot_id, commit_kind, total_record_count, delta_record_count FROM `t$snapshots`;
MERGE INTO t USING (SELECT k, v FROM src WHERE k > 4) s ON t.k = s.k
WHEN MATCHED THEN UPDATE SET v = concat(t.v, '+', s.v), n = t.n + 1
WHEN NOT MATCHED BY SOURCE AND t.k = 3 THEN DELETE
WHEN NOT MATCHED BY SOURCE THEN UPDATE SET n = -t.n;
SELECT * FROM t;
-- nothing matches, nothing is inserted
MERGE INTO t USING (SELECT 99 AS k) s ON t.k = s.k WHEN MATCHED THEN DELETE;
SELECT count(*) FROM `t$snapshots`;
-- two rows of the source for one of the table
MERGE INTO t USING (SELECT 1 AS k, 'x' AS v UNION ALL SELECT 1, 'y') s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v;
SELECT * FROM t;

-- partitions in the key, buckets that are found
CREATE TABLE p (day STRING NOT NULL, k INT NOT NULL, v STRING) PARTITIONED BY (day) TBLPROPERTIES ('primary-key' = 'day,k');
INSERT INTO p VALUES ('mon', 1, 'a'), ('mon', 2, 'b'), ('tue', 1, 'c'), ('tue', 3, 'd'), ('wed', 1, 'e');
MERGE INTO p USING (SELECT 'mon' AS day, * FROM src WHERE k IS NOT NULL) s ON p.day = s.day AND p.k = s.k
WHEN MATCHED THEN UPDATE SET v = s.v
WHEN NOT MATCHED THEN INSERT (day, k, v) VALUES (s.day, s.k, s.v);
MERGE INTO p USING src s ON p.k = s.k AND p.day = 'tue'
WHEN MATCHED THEN DELETE
WHEN NOT MATCHED AND s.k = 6 THEN INSERT (day, k, v) VALUES ('thu', s.k, s.v)
WHEN NOT MATCHED BY SOURCE AND p.day = 'wed' THEN DELETE;
SELECT * FROM p;
SELECT `partition`, record_count FROM `p$partitions`;
SELECT snapshot_id, commit_kind, total_record_count, delta_record_count FROM `p$snapshots`;

-- a key across partitions
CREATE TABLE across (day STRING, k INT NOT NULL, v STRING) PARTITIONED BY (day) TBLPROPERTIES ('primary-key' = 'k');
INSERT INTO across VALUES ('mon', 1, 'a'), ('mon', 2, 'b'), ('tue', 3, 'c');
MERGE INTO across USING (SELECT 'wed' AS day, k, v FROM src WHERE k IS NOT NULL) s ON across.k = s.k
WHEN MATCHED AND s.k = 1 THEN UPDATE SET v = s.v
WHEN MATCHED THEN DELETE
WHEN NOT MATCHED THEN INSERT *;
SELECT * FROM across;

-- partial-update
CREATE TABLE pu (k INT NOT NULL, a STRING, b INT) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1', 'merge-engine' = 'partial-update');
INSERT INTO pu VALUES (1, 'a', 1), (2, 'b', 2);
MERGE INTO pu USING src s ON pu.k = s.k
WHEN MATCHED AND s.v IS NOT NULL THEN UPDATE SET a = s.v
WHEN NOT MATCHED AND s.k IS NOT NULL THEN INSERT (k, b) VALUES (s.k, s.n);
SELECT * FROM pu;

-- the order of rows by a column
CREATE TABLE seq (k INT NOT NULL, v STRING, at INT) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1', 'sequence.field' = 'at');
INSERT INTO seq VALUES (1, 'a', 10), (2, 'b', 10);
MERGE INTO seq USING (SELECT 1 AS k, 'new' AS v, 11 AS at UNION ALL SELECT 3, 'more', 1) s ON seq.k = s.k
WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
SELECT * FROM seq;
MERGE INTO seq USING (SELECT 2 AS k) s ON seq.k = s.k WHEN MATCHED THEN DELETE;
SELECT * FROM seq;

-- a changelog of what it does
CREATE TABLE log (k INT NOT NULL, v STRING, n INT) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1', 'changelog-producer' = 'lookup');
INSERT INTO log VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3);
MERGE INTO log USING src s ON log.k = s.k
WHEN MATCHED AND s.k = 2 THEN DELETE
WHEN MATCHED THEN UPDATE SET *
WHEN NOT MATCHED AND s.k > 0 THEN INSERT *;
SELECT * FROM log;
SELECT rowkind, k, v, n FROM `log$audit_log`;

-- deletion vectors with a key
CREATE TABLE dv (k INT NOT NULL, v STRING, n INT) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1', 'deletion-vectors.enabled' = 'true');
INSERT INTO dv VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3);
MERGE INTO dv USING src s ON dv.k = s.k
WHEN MATCHED AND s.n > 10 THEN DELETE
WHEN MATCHED THEN UPDATE SET v = s.v
WHEN NOT MATCHED AND s.k IS NOT NULL THEN INSERT *
WHEN NOT MATCHED BY SOURCE THEN UPDATE SET n = 0;
SELECT * FROM dv;
