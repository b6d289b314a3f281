--! page: SQL Query
--! setup:
CREATE TABLE t (k INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1'); INSERT INTO t VALUES (1, 'a'); INSERT INTO t VALUES (2, 'b'); ALTER TABLE t CREATE TAG `my-tag`;
SELECT * FROM t;
SELECT *, __paimon_file_path, __paimon_partition, __paimon_bucket, __paimon_row_index FROM t;
SELECT * FROM t VERSION AS OF 1;
SELECT * FROM t TIMESTAMP AS OF '2100-06-01 00:00:00.123';
SELECT * FROM t TIMESTAMP AS OF 4110886247;
SELECT * FROM t VERSION AS OF 'my-tag';
--! refused: watermark-1678883047356
SELECT * FROM t VERSION AS OF 'watermark-1678883047356';
SELECT * FROM paimon_incremental_query('t', 1, 2);
SELECT * FROM paimon_incremental_between_timestamp('t', '4102444800000', '4102531200000');
SELECT * FROM paimon_incremental_between_timestamp('t', '2100-03-12 00:00:00', '2100-03-12 00:08:00');
--! refused: paimon_incremental_to_auto_tag
SELECT * FROM paimon_incremental_to_auto_tag('t', '2024-12-04');
CREATE TABLE orders (catalog_id BIGINT, order_id BIGINT, item STRING) TBLPROPERTIES ('primary-key' = 'catalog_id,order_id');
SELECT * FROM orders WHERE catalog_id=1025;
SELECT * FROM orders WHERE catalog_id=1025 AND order_id=29495;
SELECT * FROM orders WHERE catalog_id=1025 AND order_id>2035 AND order_id<6000;
SELECT * FROM orders WHERE order_id=29495;
SELECT * FROM orders WHERE catalog_id=1025 OR order_id=29495;
