--! page: SQL DDL
USE tidelake.default;
CREATE TABLE m (user_id BIGINT, item_id BIGINT, behavior STRING, dt STRING, hh STRING) TBLPROPERTIES ('primary-key' = 'dt,hh,user_id');
CREATE TABLE p (user_id BIGINT, item_id BIGINT, behavior STRING, dt STRING, hh STRING) PARTITIONED BY (dt, hh) TBLPROPERTIES ('primary-key' = 'dt,hh,user_id');
--! refused: A partition exists once it has rows
ALTER TABLE p ADD PARTITION (dt = '2025-01-01');
ALTER TABLE p DROP PARTITION (dt = '2025-01-01');
--! refused: MSCK
MSCK REPAIR TABLE p;
SHOW PARTITIONS p;
--! refused: leave PARTITION out
ANALYZE TABLE p PARTITION (dt = '2025-01-01') COMPUTE STATISTICS NOSCAN;
--! refused: LOCATION is not supported
CREATE TABLE e (user_id BIGINT, dt STRING) PARTITIONED BY (dt) TBLPROPERTIES ('primary-key' = 'dt,user_id') LOCATION '/path/to/table';
--! refused: LOCATION is not supported
CREATE TABLE e LOCATION '/path/to/table';
CREATE TABLE s (user_id BIGINT, item_id BIGINT);
CREATE TABLE s_as AS SELECT * FROM s;
CREATE TABLE sp (user_id BIGINT, behavior STRING, dt STRING, hh STRING) PARTITIONED BY (dt, hh);
CREATE TABLE sp_as PARTITIONED BY (dt) AS SELECT * FROM sp;
CREATE TABLE so (user_id BIGINT, item_id BIGINT) TBLPROPERTIES ('file.format' = 'orc');
CREATE TABLE so_as TBLPROPERTIES ('file.format' = 'parquet') AS SELECT * FROM so;
CREATE TABLE sk (user_id BIGINT, dt STRING, hh STRING) TBLPROPERTIES ('primary-key' = 'dt,hh,user_id');
CREATE TABLE sk_as TBLPROPERTIES ('primary-key' = 'dt') AS SELECT * FROM sk;
CREATE TABLE sa (user_id BIGINT, dt STRING, hh STRING) PARTITIONED BY (dt, hh) TBLPROPERTIES ('primary-key' = 'dt,hh,user_id');
CREATE TABLE sa_as PARTITIONED BY (dt) TBLPROPERTIES ('primary-key' = 'dt,hh') AS SELECT * FROM sa;
CREATE TABLE r (user_id BIGINT, item_id BIGINT, behavior STRING) TBLPROPERTIES ('primary-key' = 'user_id', 'bucket' = '2');
INSERT INTO r VALUES (1, 10, 'pv');
REPLACE TABLE r (user_id BIGINT, item_id BIGINT, category STRING) TBLPROPERTIES ('primary-key' = 'user_id', 'bucket' = '4');
SELECT * FROM r;
--! refused: snapshot
SELECT * FROM r VERSION AS OF 1;
CREATE OR REPLACE TABLE r TBLPROPERTIES ('primary-key' = 'user_id', 'bucket' = '4') AS SELECT user_id, item_id, behavior FROM m;
CREATE TABLE l LIKE s;
CREATE TABLE ls (id INT, name STRING, pt STRING) COMMENT 'a comment' PARTITIONED BY (pt) TBLPROPERTIES ('primary-key' = 'id,pt', 'bucket' = '5');
CREATE TABLE lt LIKE ls;
--! refused: keeps no views
CREATE VIEW default.v1 AS SELECT * FROM m;
CREATE TEMPORARY VIEW v1 AS SELECT * FROM m;
--! refused: keeps no views
CREATE OR REPLACE VIEW default.v1 AS SELECT * FROM m;
CREATE OR REPLACE TEMPORARY VIEW v1 AS SELECT * FROM m;
DROP VIEW v1;
--! setup:
CREATE TABLE T (k INT, v STRING); INSERT INTO T VALUES (1, 'a'); INSERT INTO T VALUES (2, 'b');
ALTER TABLE T CREATE TAG `TAG-1`;
ALTER TABLE T CREATE TAG IF NOT EXISTS `TAG-1`;
ALTER TABLE T CREATE TAG `TAG-2` RETAIN 7 DAYS;
ALTER TABLE T CREATE TAG `TAG-3` AS OF VERSION 1;
ALTER TABLE T CREATE TAG `TAG-4` AS OF VERSION 2 RETAIN 12 HOURS;
ALTER TABLE T REPLACE TAG `TAG-4` AS OF VERSION 2 RETAIN 24 HOURS;
ALTER TABLE T CREATE OR REPLACE TAG `TAG-5` AS OF VERSION 2 RETAIN 24 HOURS;
ALTER TABLE T DELETE TAG `TAG-1`;
ALTER TABLE T DELETE TAG IF EXISTS `TAG-1`;
ALTER TABLE T DELETE TAG `TAG-2,TAG-3`;
ALTER TABLE T RENAME TAG `TAG-4` TO `TAG-6`;
SHOW TAGS T;
