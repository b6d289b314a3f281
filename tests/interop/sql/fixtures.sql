-- Tables that real Paimon wrote, read and changed further.
--! copy: pk_fixed pk_partitioned pk_dynamic pk_dv append_unaware append_bucketed
--! copy: agg_all pu_plain first_row dedup_seqfield cl_lookup evo_parquet tags_branches types_pk_parquet
INSERT INTO pk_fixed VALUES (2, 'java and we', 1), (77, 'new', 77);
DELETE FROM pk_fixed WHERE k = 3;
SELECT * FROM pk_fixed;
SELECT * FROM pk_fixed VERSION AS OF 1;
INSERT OVERWRITE pk_partitioned PARTITION (dt = '2024-01-02') VALUES (5, 'five', 5);
DELETE FROM pk_partitioned WHERE dt = '2024-01-01';
SELECT * FROM pk_partitioned;
SHOW PARTITIONS pk_partitioned;
INSERT INTO pk_dynamic VALUES (2, 'two', 2), (88, 'x', 8);
SELECT * FROM pk_dynamic;
UPDATE pk_dv SET v = 'updated' WHERE k = 2;
SELECT * FROM pk_dv;
DELETE FROM append_unaware WHERE k = 2;
UPDATE append_bucketed SET n = 0 WHERE k = 3;
SELECT * FROM append_unaware;
SELECT * FROM append_bucketed;
INSERT INTO agg_all (k, s_sum, s_max) VALUES (1, 5, 100);
SELECT k, s_sum, s_max FROM agg_all;
INSERT INTO pu_plain VALUES (1, 'z', NULL);
--! differs: removed-values
SELECT * FROM pu_plain;
INSERT INTO first_row VALUES (1, 'late', 0), (99, 'new', 9);
SELECT * FROM first_row;
INSERT INTO dedup_seqfield VALUES (1, 'older', 1), (2, 'newer', 99);
SELECT * FROM dedup_seqfield;
INSERT INTO cl_lookup VALUES (5, 'E', 5);
SELECT * FROM cl_lookup;
ALTER TABLE evo_parquet ADD COLUMN last STRING;
INSERT INTO evo_parquet (k, last) VALUES (6, 'l');
SELECT * FROM evo_parquet;
SELECT * FROM tags_branches VERSION AS OF 't1';
SELECT * FROM `tags_branches$branch_b1`;
SHOW TAGS tags_branches;
SELECT * FROM types_pk_parquet;
