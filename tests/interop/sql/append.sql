-- A table without keys: INSERT in all forms, UPDATE, DELETE, OVERWRITE, TRUNCATE.
CREATE TABLE t (id INT, name STRING, price DECIMAL(10, 2), at DATE);
INSERT INTO t VALUES (1, 'tea', 1.50, DATE '2026-01-01'), (2, 'rye', 2.25, NULL);
INSERT INTO t SELECT 3, 'nut', 3, DATE '2026-01-03';
INSERT INTO t (name, id) VALUES ('oat', 4);
INSERT INTO t BY NAME SELECT 'fig' AS name, 5 AS id, DATE '2026-01-05' AS at, 5 AS price;
INSERT INTO TABLE t SELECT id + 10, upper(name), price, at FROM t WHERE id <= 2;
UPDATE t SET price = price + 1, name = concat(name, '!') WHERE id > 10;
DELETE FROM t WHERE id = 2;
DELETE FROM t WHERE name IS NULL OR price < 2;
SELECT * FROM t;
INSERT OVERWRITE t SELECT 100, 'only', 1, NULL;
SELECT * FROM t;
INSERT OVERWRITE TABLE t SELECT id, name, price, at FROM t WHERE false;
SELECT count(*) FROM t;
--! differs: empty-truncate
TRUNCATE TABLE t;
SELECT * FROM t;
DROP TABLE t;
SELECT * FROM t;
CREATE TABLE b (id INT, v STRING) TBLPROPERTIES ('bucket' = '2', 'bucket-key' = 'id');
INSERT INTO b VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd');
DELETE FROM b WHERE id = 2;
UPDATE b SET v = 'x' WHERE id = 3;
SELECT * FROM b;
