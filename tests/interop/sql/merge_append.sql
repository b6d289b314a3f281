-- MERGE INTO tables without keys, with deletion vectors and without.
CREATE TABLE src (id INT, v STRING, n INT);
INSERT INTO src VALUES (1, 'one', 10), (2, 'two', 20), (5, 'five', 50), (6, NULL, 60), (NULL, 'none', 0);

CREATE TABLE a (id INT, v STRING, n INT);
INSERT INTO a VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3);
INSERT INTO a VALUES (4, 'd', 4), (2, 'b2', 5), (NULL, 'e', 6);
MERGE INTO a USING src s ON a.id = s.id
WHEN MATCHED THEN UPDATE SET v = s.v
WHEN NOT MATCHED THEN INSERT *;
SELECT * FROM a;
SELECT snapshot_id, commit_kind, total_record_count, delta_record_count FROM `a$snapshots`;
MERGE INTO a USING (SELECT id, n FROM src WHERE id < 3) s ON a.id = s.id
WHEN MATCHED AND a.n = 5 THEN DELETE
WHEN MATCHED THEN UPDATE SET n = a.n + s.n
WHEN NOT MATCHED BY SOURCE AND a.id IS NULL THEN DELETE
WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = upper(a.v);
SELECT * FROM a;
SELECT snapshot_id, commit_kind, total_record_count, delta_record_count FROM `a$snapshots`;
MERGE INTO a USING (SELECT 1 AS id, 'x' AS v UNION ALL SELECT 1, 'y') s ON a.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v;
SELECT * FROM a;
MERGE INTO a USING (SELECT 77 AS id) s ON a.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id);
MERGE INTO a USING (SELECT 77 AS id) s ON a.id = s.id WHEN MATCHED THEN DELETE;
MERGE INTO a USING (WITH w AS (SELECT id, n FROM src WHERE n > 40) SELECT * FROM w) s ON a.id = s.id AND a.n < s.n WHEN MATCHED THEN UPDATE SET id = s.id + 100;
INSERT INTO a VALUES (NULL, 'null', 9);
MERGE INTO a USING src s ON a.id <=> s.id WHEN MATCHED AND s.id IS NULL THEN DELETE;
SELECT * FROM a;
SELECT snapshot_id, commit_kind, total_record_count, delta_record_count FROM `a$snapshots`;

CREATE TABLE d (id INT, v STRING, n INT) TBLPROPERTIES ('deletion-vectors.enabled' = 'true');
INSERT INTO d VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3);
INSERT INTO d VALUES (4, 'd', 4), (2, 'b2', 5);
MERGE INTO d USING src s ON d.id = s.id
WHEN MATCHED AND d.n = 5 THEN DELETE
WHEN MATCHED THEN UPDATE SET *
WHEN NOT MATCHED AND s.v IS NOT NULL THEN INSERT *;
SELECT * FROM d;
SELECT snapshot_id, commit_kind, total_record_count, delta_record_count FROM `d$snapshots`;
MERGE INTO d USING (SELECT 3 AS id, 'three' AS v) s ON d.id = s.id
WHEN MATCHED THEN UPDATE SET v = s.v
WHEN NOT MATCHED BY SOURCE AND d.id IS NULL THEN DELETE;
SELECT * FROM d;
MERGE INTO d USING (SELECT * FROM d VERSION AS OF 1) s ON d.id = s.id WHEN MATCHED THEN UPDATE SET n = s.n WHEN NOT MATCHED THEN INSERT *;
SELECT * FROM d;

CREATE TABLE p (day STRING, id INT, v STRING) PARTITIONED BY (day);
INSERT INTO p VALUES ('mon', 1, 'a'), ('mon', 2, 'b'), ('tue', 1, 'c'), ('wed', 3, 'd');
MERGE INTO p USING src s ON p.id = s.id AND p.day = 'mon'
WHEN MATCHED THEN UPDATE SET v = s.v
WHEN NOT MATCHED AND s.id > 5 THEN INSERT (day, id, v) VALUES ('thu', s.id, s.v);
MERGE INTO p USING (SELECT DISTINCT 'wed' AS day) s ON p.day = s.day WHEN MATCHED THEN DELETE;
MERGE INTO p USING (SELECT 1 AS id) s ON p.id = s.id WHEN MATCHED THEN UPDATE SET day = 'sun';
SELECT * FROM p;
SELECT `partition`, record_count FROM `p$partitions`;

CREATE TABLE b (id INT, v STRING) TBLPROPERTIES ('bucket' = '2', 'bucket-key' = 'id');
INSERT INTO b VALUES (1, 'a'), (2, 'b'), (3, 'c');
MERGE INTO b USING src s ON b.id = s.id
WHEN MATCHED THEN DELETE WHEN NOT MATCHED AND s.id > 4 THEN INSERT (id, v) VALUES (s.id, s.v);
SELECT * FROM b;

-- where they differ: these tables go in the end
CREATE TABLE odd (id INT, v STRING);
INSERT INTO odd VALUES (1, 'a'), (2, 'b'), (3, 'c');
--! differs: merge-nothing
MERGE INTO odd t USING (SELECT 1 AS id, 'z' AS v) s ON t.id = s.id WHEN MATCHED AND t.v = s.v THEN DELETE;
--! differs: merge-twice
MERGE INTO odd t USING (SELECT 1 AS id UNION ALL SELECT 1) s ON t.id = s.id WHEN MATCHED THEN DELETE;
DROP TABLE odd;
