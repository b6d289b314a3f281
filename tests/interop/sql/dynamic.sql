-- Buckets that are found for each key, across partitions too; and postponed ones.
CREATE TABLE d (k INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '-1', 'dynamic-bucket.target-row-num' = '3');
INSERT INTO d SELECT cast(id AS INT), 'one' FROM range(8);
INSERT INTO d SELECT cast(id AS INT), 'two' FROM range(6, 10);
DELETE FROM d WHERE k = 7;
UPDATE d SET v = 'u' WHERE k = 9;
SELECT * FROM d WHERE k > 5;
INSERT OVERWRITE d VALUES (1, 'over');
SELECT * FROM d;
CREATE TABLE x (k INT NOT NULL, v STRING, dt STRING) PARTITIONED BY (dt) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '-1');
INSERT INTO x VALUES (1, 'a', 'd1'), (2, 'b', 'd1');
INSERT INTO x VALUES (1, 'moved', 'd2');
SELECT * FROM x;
CREATE TABLE pp (k INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '-2');
INSERT INTO pp VALUES (1, 'a'), (2, 'b');
INSERT INTO pp VALUES (2, 'B');
--! differs: postponed-batches
CALL sys.compact(table => '@db.pp');
SELECT * FROM pp;
