-- Tables made of queries, and replaced.
CREATE TABLE source (id INT, v STRING, dt STRING);
INSERT INTO source VALUES (1, 'a', 'x'), (2, 'b', 'y'), (3, NULL, 'x');
CREATE TABLE plain AS SELECT * FROM source;
SELECT * FROM plain;
CREATE TABLE formatted TBLPROPERTIES ('file.format' = 'orc') AS SELECT id, v FROM source;
CREATE TABLE keyed TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1') AS SELECT id, v FROM source;
CREATE TABLE both PARTITIONED BY (dt) TBLPROPERTIES ('primary-key' = 'dt,id', 'bucket' = '1') AS SELECT * FROM source;
SELECT * FROM both;
CREATE TABLE counted AS SELECT dt, count(*) AS n, sum(id) AS total, max(v) AS most FROM source GROUP BY dt;
SELECT * FROM counted;
CREATE TABLE IF NOT EXISTS plain AS SELECT 1 AS other;
CREATE TABLE plain AS SELECT 1 AS other;
CREATE TABLE typed AS SELECT cast(1 AS TINYINT) AS a, cast(1 AS DECIMAL(7, 3)) AS b, DATE '2026-01-01' AS c, TIMESTAMP_NTZ '2026-01-01 00:00:00' AS d, TIMESTAMP '2026-01-01 00:00:00' AS e, array(1, 2) AS f, map('a', 1.5D) AS g, named_struct('x', 1, 'y', 'z') AS h, X'01' AS i, true AS j;
SELECT * FROM typed;
CREATE TABLE replaced (id INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1');
INSERT INTO replaced VALUES (1, 'old');
--! differs: replaced-history
REPLACE TABLE replaced (id INT NOT NULL, w DOUBLE) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1');
--! differs: replaced-history
INSERT INTO replaced VALUES (2, 2.5);
SELECT * FROM replaced;
--! differs: replaced-history
CREATE OR REPLACE TABLE replaced TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1') AS SELECT id, v FROM source WHERE v IS NOT NULL;
SELECT * FROM replaced;
REPLACE TABLE nowhere (id INT);
CREATE TABLE twin LIKE source;
ALTER TABLE plain RENAME TO renamed;
SELECT * FROM renamed;
SELECT * FROM plain;
ALTER TABLE renamed RENAME TO twin;
INSERT INTO renamed SELECT * FROM renamed;
SELECT * FROM renamed;
