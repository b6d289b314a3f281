--! page: SQL Alter
--! setup:
CREATE TABLE m (id INT, name STRING, c0 INT, buy_count INT, col_a FLOAT, col_b INT, b INT) PARTITIONED BY (id, name);
ALTER TABLE m SET TBLPROPERTIES ('write-buffer-size' = '256 MB');
ALTER TABLE m UNSET TBLPROPERTIES ('write-buffer-size');
ALTER TABLE m SET TBLPROPERTIES ('comment' = 'table comment');
ALTER TABLE m UNSET TBLPROPERTIES ('comment');
--! setup:
CREATE TABLE old (a INT); CREATE TABLE test1 (a INT);
ALTER TABLE old RENAME TO new;
ALTER TABLE tidelake.default.test1 RENAME to default.test2;
--! setup:
CREATE TABLE test1 (a INT); DROP TABLE test2;
ALTER TABLE tidelake.default.test1 RENAME to tidelake.default.test2;
ALTER TABLE m ADD COLUMNS (c1 INT, c2 STRING);
--! setup:
CREATE TABLE s (v STRUCT<f1: STRING, f2: INT>); CREATE TABLE a (v ARRAY<STRUCT<f1: STRING, f2: INT>>); CREATE TABLE x (v MAP<INT, STRUCT<f1: STRING, f2: INT>>);
ALTER TABLE s ADD COLUMN v.f3 STRING;
ALTER TABLE a ADD COLUMN v.element.f3 STRING;
ALTER TABLE x ADD COLUMN v.value.f3 STRING;
ALTER TABLE m RENAME COLUMN c0 TO c9;
ALTER TABLE s RENAME COLUMN v.f1 to f100;
ALTER TABLE a RENAME COLUMN v.element.f1 to f100;
ALTER TABLE x RENAME COLUMN v.value.f1 to f100;
ALTER TABLE m DROP COLUMNS (c1, c2);
ALTER TABLE s DROP COLUMN v.f3;
ALTER TABLE a DROP COLUMN v.element.f3;
ALTER TABLE x DROP COLUMN v.value.f3;
ALTER TABLE m DROP PARTITION (`id` = 1, `name` = 'paimon');
ALTER TABLE m ALTER COLUMN buy_count COMMENT 'buy count';
ALTER TABLE m ADD COLUMN first INT FIRST;
ALTER TABLE m ADD COLUMN c INT AFTER b;
ALTER TABLE m ALTER COLUMN col_a FIRST;
ALTER TABLE m ALTER COLUMN col_a AFTER col_b;
ALTER TABLE m ALTER COLUMN col_a TYPE DOUBLE;
ALTER TABLE s ALTER COLUMN v.f2 TYPE BIGINT;
ALTER TABLE a ALTER COLUMN v.element.f2 TYPE BIGINT;
ALTER TABLE x ALTER COLUMN v.value.f2 TYPE BIGINT;
--! refused: has no options
ALTER DATABASE default SET DBPROPERTIES ('owner' = 'me');
--! refused: has no options
ALTER SCHEMA default SET DBPROPERTIES ('owner' = 'me');
--! refused: has no options
ALTER NAMESPACE default SET PROPERTIES ('owner' = 'me');
--! refused: has no options
ALTER DATABASE default SET LOCATION 'file:/temp/my_database.db';
