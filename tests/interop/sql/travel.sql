-- Time travel, and rows between two moments.
CREATE TABLE t (k INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1');
INSERT INTO t VALUES (1, 'a'), (2, 'b');
INSERT INTO t VALUES (2, 'B'), (3, 'c');
DELETE FROM t WHERE k = 1;
INSERT INTO t VALUES (4, 'd');
SELECT * FROM t VERSION AS OF 1;
SELECT * FROM t VERSION AS OF 2;
SELECT * FROM t TIMESTAMP AS OF '@time(t, 2)';
SELECT * FROM t TIMESTAMP AS OF '2001-01-01';
SELECT a.k, a.v, b.v FROM t VERSION AS OF 1 a FULL JOIN t b ON a.k = b.k;
ALTER TABLE t CREATE TAG `first` AS OF VERSION 1;
ALTER TABLE t CREATE TAG `third` AS OF VERSION 3;
SELECT * FROM t VERSION AS OF 'first';
SELECT * FROM t VERSION AS OF 'nowhere';
SELECT * FROM t WITH ('scan.snapshot-id' = '2');
SELECT * FROM t WITH ('scan.tag-name' = 'third');
SELECT * FROM t WITH ('scan.timestamp-millis' = '@millis(t, 2)');
--! differs: deleted-rows
SELECT * FROM paimon_incremental_query('@db.t', 1, 4);
SELECT * FROM paimon_incremental_query('@db.t', 'first', 'third');
SELECT k FROM paimon_incremental_query('@db.t', 0, 4) WHERE v = 'B';
--! differs: deleted-rows
SELECT * FROM paimon_incremental_between_timestamp('@db.t', '@millis(t, 1)', '@millis(t, 4)');
--! differs: deleted-rows
SELECT * FROM t WITH ('incremental-between' = '2,4');
SELECT * FROM paimon_incremental_between_timestamp('@db.t', '2001-01-01', '@time(t, 2)');
SELECT * FROM t WITH ('incremental-between' = '1,4', 'incremental-between-scan-mode' = 'diff');
SELECT rowkind, k, v FROM `t$audit_log` WITH ('incremental-between' = '1,4');
CREATE TABLE a (id INT, v STRING);
INSERT INTO a VALUES (1, 'a');
INSERT INTO a VALUES (2, 'b');
INSERT INTO a VALUES (3, 'c');
SELECT * FROM a VERSION AS OF 2;
ALTER TABLE a ADD COLUMN more INT;
INSERT INTO a VALUES (4, 'd', 4);
SELECT * FROM a VERSION AS OF 3;
