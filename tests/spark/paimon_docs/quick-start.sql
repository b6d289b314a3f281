--! page: Quick Start
USE tidelake;
USE default;
create table m (k int, v string) tblproperties ('primary-key' = 'k');
--! setup:
DROP TABLE m;
create table m (k int, v string) USING paimon tblproperties ('primary-key' = 'k');
INSERT INTO m VALUES (1, 'Hi'), (2, 'Hello');
SELECT * FROM m;
