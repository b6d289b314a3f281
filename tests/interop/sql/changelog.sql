-- What changelog producers write.
CREATE TABLE i (k INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1', 'changelog-producer' = 'input');
INSERT INTO i VALUES (1, 'a'), (2, 'b');
INSERT INTO i VALUES (1, 'A');
DELETE FROM i WHERE k = 2;
SELECT rowkind, k, v FROM `i$audit_log`;
--! differs: deleted-rows
SELECT * FROM paimon_incremental_query('@db.i', 1, 3);
SELECT rowkind, k, v FROM `i$audit_log` WITH ('incremental-between' = '0,3');
CREATE TABLE l (k INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1', 'changelog-producer' = 'lookup');
INSERT INTO l VALUES (1, 'a'), (2, 'b');
INSERT INTO l VALUES (1, 'A'), (3, 'c');
UPDATE l SET v = 'u' WHERE k = 3;
DELETE FROM l WHERE k = 2;
SELECT * FROM l;
SELECT rowkind, k, v FROM `l$audit_log` WITH ('incremental-between' = '2,8');
SELECT snapshot_id, commit_kind, coalesce(changelog_record_count, 0) FROM `l$snapshots`;
CREATE TABLE f (k INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1', 'changelog-producer' = 'full-compaction', 'full-compaction.delta-commits' = '1');
INSERT INTO f VALUES (1, 'a'), (2, 'b');
INSERT INTO f VALUES (1, 'A');
SELECT rowkind, k, v FROM `f$audit_log` WITH ('incremental-between' = '0,4');
CREATE TABLE fr (k INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1', 'merge-engine' = 'first-row', 'changelog-producer' = 'lookup');
INSERT INTO fr VALUES (1, 'a');
INSERT INTO fr VALUES (1, 'b'), (2, 'c');
SELECT rowkind, k, v FROM `fr$audit_log` WITH ('incremental-between' = '0,4');
--! differs: binlog-between
SELECT rowkind, k, v FROM `l$binlog` WITH ('incremental-between' = '2,4');
