-- Tags and rollbacks, by ALTER TABLE and by CALL.
CREATE TABLE t (k INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1');
INSERT INTO t VALUES (1, 'a');
INSERT INTO t VALUES (2, 'b');
INSERT INTO t VALUES (3, 'c');
ALTER TABLE t CREATE TAG newest;
ALTER TABLE t CREATE TAG `one` AS OF VERSION 1;
ALTER TABLE t CREATE TAG IF NOT EXISTS `one` AS OF VERSION 2;
ALTER TABLE t CREATE TAG kept AS OF VERSION 2 RETAIN 7 DAYS;
ALTER TABLE t CREATE OR REPLACE TAG moved AS OF VERSION 1;
ALTER TABLE t CREATE OR REPLACE TAG moved AS OF VERSION 2 RETAIN 24 HOURS;
ALTER TABLE t REPLACE TAG `one` AS OF VERSION 3;
--! differs: replaced-tag
ALTER TABLE t REPLACE TAG missing AS OF VERSION 3;
ALTER TABLE t DELETE TAG IF EXISTS missing;
SHOW TAGS t;
ALTER TABLE t RENAME TAG moved TO renamed;
ALTER TABLE t DELETE TAG `one`;
ALTER TABLE t DELETE TAG IF EXISTS `one`;
ALTER TABLE t DELETE TAG `newest,kept`;
SHOW TAGS t;
CALL sys.create_tag(table => '@db.t', tag => 'by_call', snapshot => 2);
CALL sys.create_tag(table => '@db.t', tag => 'latest', time_retained => '1 d');
CALL sys.create_tag('@db.t', 'placed', 1);
CALL sys.rename_tag(table => '@db.t', tag => 'placed', target_tag => 'other');
CALL sys.replace_tag(table => '@db.t', tag => 'other', snapshot => 3);
--! settle:
CALL sys.create_tag_from_timestamp(table => '@db.t', tag => 'in_time', timestamp => @millis(t, 2));
CALL sys.delete_tag(table => '@db.t', tag => 'latest');
CALL sys.rollback(table => '@db.t', version => 'by_call');
SHOW TAGS t;
CALL sys.rollback(table => '@db.t', version => '1');
INSERT INTO t VALUES (5, 'five');
INSERT INTO t VALUES (6, 'six');
CALL sys.rollback_to_timestamp(table => '@db.t', timestamp => @millis(t, 2));
SELECT * FROM t;
