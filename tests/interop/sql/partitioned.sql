-- Partitions: static and dynamic OVERWRITE, dropped, truncated, shown.
CREATE TABLE p (id INT, v STRING, dt STRING, h INT) PARTITIONED BY (dt, h);
INSERT INTO p VALUES (1, 'a', 'd1', 1), (2, 'b', 'd1', 2), (3, 'c', 'd2', 1);
INSERT INTO p PARTITION (dt = 'd3', h = 3) VALUES (4, 'd');
INSERT INTO p PARTITION (dt = 'd3', h) SELECT 5, 'e', 4;
SHOW PARTITIONS p;
SHOW PARTITIONS p PARTITION (dt = 'd3');
INSERT OVERWRITE p PARTITION (dt = 'd1', h = 1) VALUES (10, 'new');
INSERT OVERWRITE p PARTITION (dt = 'd1', h = 1) SELECT id, v FROM p WHERE false;
ALTER TABLE p DROP PARTITION (dt = 'd2', h = 1);
SHOW PARTITIONS p;
TRUNCATE TABLE p PARTITION (dt = 'd3', h = 4);
DELETE FROM p WHERE dt = 'd3';
UPDATE p SET v = 'updated' WHERE dt = 'd1' AND h = 2;
-- what an OVERWRITE without values replaces is a setting of the session in Java
--! java: SET spark.sql.sources.partitionOverwriteMode = dynamic
--! settle:
SET spark.sql.sources.partitionOverwriteMode = dynamic;
INSERT INTO p VALUES (1, 'a', 'd1', 1), (2, 'b', 'd1', 2), (3, 'c', 'd2', 1);
INSERT OVERWRITE p VALUES (30, 'C', 'd2', 1);
SELECT * FROM p;
INSERT OVERWRITE p PARTITION (dt = 'd1', h) VALUES (20, 'B', 2);
CREATE TABLE k (dt DATE NOT NULL, id INT NOT NULL, v STRING) PARTITIONED BY (dt) TBLPROPERTIES ('primary-key' = 'dt,id', 'bucket' = '1');
INSERT INTO k VALUES (DATE '2026-01-01', 1, 'a'), (DATE '2026-01-02', 1, 'b');
INSERT INTO k VALUES (DATE '2026-01-01', 1, 'A');
SELECT * FROM k;
INSERT OVERWRITE k VALUES (DATE '2026-01-02', 2, 'only');
DELETE FROM k WHERE dt = DATE '2026-01-01';
SHOW PARTITIONS k;
SELECT * FROM k;
SET spark.sql.sources.partitionOverwriteMode = static;
INSERT OVERWRITE k PARTITION (dt = '2026-01-02') VALUES (3, 'static');
INSERT INTO k VALUES (DATE '2026-01-07', 7, 'gone');
INSERT OVERWRITE k VALUES (DATE '2026-01-05', 5, 'alone');
SELECT * FROM k;
CREATE TABLE n (v INT, part STRING) PARTITIONED BY (part);
INSERT INTO n VALUES (1, NULL), (2, ''), (3, 'x');
SELECT * FROM n;
INSERT INTO p VALUES (40, 'D', 'd4', 1), (41, 'D', 'd4', 2);
INSERT OVERWRITE p PARTITION (dt = 'd4', h) VALUES (42, 'E', 2);
SELECT * FROM p;
--! settle:
RESET spark.sql.sources.partitionOverwriteMode;
CREATE TABLE unset (id INT, dt STRING) PARTITIONED BY (dt);
INSERT INTO unset VALUES (1, 'a'), (2, 'b');
--! differs: overwrite-mode
INSERT OVERWRITE unset VALUES (3, 'a');
