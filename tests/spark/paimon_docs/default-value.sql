--! page: Default Value
--! refused: default
CREATE TABLE m (a BIGINT, b STRING DEFAULT 'my_value', c INT DEFAULT 5, tags ARRAY<STRING> DEFAULT ARRAY('tag1', 'tag2', 'tag3'), properties MAP<STRING, STRING> DEFAULT MAP('key1', 'value1', 'key2', 'value2'), nested STRUCT<x: INT, y: STRING> DEFAULT STRUCT(42, 'default_value'));
--! setup:
CREATE TABLE m (a BIGINT, b STRING DEFAULT 'my_value', c INT DEFAULT 5, tags ARRAY<STRING>, properties MAP<STRING, STRING>);
INSERT INTO m (a) VALUES (1), (2);
SELECT * FROM m;
CREATE TABLE T (a INT, b INT DEFAULT 2);
INSERT INTO T (a) VALUES (1);
ALTER TABLE T ALTER COLUMN b SET DEFAULT 3;
INSERT INTO T (a) VALUES (2);
--! refused: default
ALTER TABLE m ALTER COLUMN tags SET DEFAULT ARRAY('new_tag1', 'new_tag2');
INSERT INTO m (a) VALUES (3);
--! refused: default
ALTER TABLE m ALTER COLUMN properties SET DEFAULT MAP('new_key', 'new_value');
INSERT INTO m (a) VALUES (4);
ALTER TABLE T ADD COLUMN d INT DEFAULT 5;
