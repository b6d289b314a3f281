-- System tables of a table that was changed in many ways.
CREATE TABLE t (k INT NOT NULL, v STRING, dt STRING NOT NULL) PARTITIONED BY (dt) TBLPROPERTIES ('primary-key' = 'dt,k', 'bucket' = '2');
INSERT INTO t VALUES (1, 'a', 'x'), (2, 'b', 'x'), (3, 'c', 'y');
INSERT INTO t VALUES (1, 'A', 'x');
ALTER TABLE t ADD COLUMN n INT;
INSERT INTO t VALUES (9, 'z', 'z', 9);
ALTER TABLE t CREATE TAG v1 AS OF VERSION 1;
--! differs: no-changelog
SELECT snapshot_id, schema_id, commit_kind, total_record_count, delta_record_count, changelog_record_count FROM `t$snapshots`;
SELECT schema_id, fields, partition_keys, primary_keys, comment FROM `t$schemas`;
SELECT `partition`, bucket, file_format, schema_id, level, record_count, min_key, max_key, null_value_counts, min_value_stats, max_value_stats, min_sequence_number, max_sequence_number FROM `t$files`;
SELECT `partition`, record_count, file_count FROM `t$partitions`;
SELECT `partition`, bucket, record_count, file_count FROM `t$buckets`;
SELECT num_added_files, num_deleted_files, schema_id FROM `t$manifests`;
SELECT tag_name, snapshot_id, schema_id, record_count FROM `t$tags`;
SELECT * FROM `t$audit_log`;
SELECT * FROM `t$ro`;
SELECT * FROM `t$binlog`;
--! differs: later-columns
SELECT * FROM `t$table_indexes`;
SELECT s.snapshot_id, c.schema_id FROM `t$snapshots` s JOIN `t$schemas` c ON s.schema_id = c.schema_id WHERE s.commit_kind = 'APPEND';
SELECT * FROM `t$nowhere`;
INSERT INTO `t$files` SELECT 1;
