-- ANALYZE and what it leaves.
CREATE TABLE t (k INT NOT NULL, v STRING, d DOUBLE, at DATE) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1');
INSERT INTO t VALUES (1, 'a', 1.5, DATE '2026-01-01'), (2, NULL, 2.5, NULL), (3, 'long text', NULL, DATE '2026-01-03');
ANALYZE TABLE t COMPUTE STATISTICS;
SELECT snapshot_id, schema_id, mergedRecordCount FROM `t$statistics`;
ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS k, v;
SELECT mergedRecordCount, from_json(colstat, 'map<string, string>') AS columns FROM `t$statistics`;
ANALYZE TABLE t COMPUTE STATISTICS FOR ALL COLUMNS;
SELECT from_json(colstat, 'map<string, string>') AS columns FROM `t$statistics`;
SELECT count(*) FROM t;
ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS nowhere;
ANALYZE TABLE nowhere COMPUTE STATISTICS;
