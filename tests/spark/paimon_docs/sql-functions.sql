--! page: SQL Functions
--! setup:
CREATE TABLE t (a STRING, content STRING, pt STRING) PARTITIONED BY (pt); INSERT INTO t VALUES ('a', 'x', '20250101');
SELECT sys.max_pt('t');
SELECT * FROM t where pt = sys.max_pt('t');
--! refused: sys.path_to_descriptor
INSERT INTO t VALUES ('1', sys.path_to_descriptor('file:///path/to/blob_file'), 'p');
--! refused: sys.path_to_descriptor
INSERT OVERWRITE TABLE t PARTITION (pt='1017') VALUES ('1', sys.path_to_descriptor('file:///path/to/blob_file'));
--! refused: sys.descriptor_to_string
SELECT sys.descriptor_to_string(content) FROM t WHERE a = '1';
--! refused: blob-as-descriptor
ALTER TABLE t SET TBLPROPERTIES ('blob-as-descriptor' = 'true');
--! refused: sys.descriptor_to_presigned_url
SELECT sys.descriptor_to_presigned_url('default.t', content, INTERVAL '5' MINUTE) FROM t;
--! refused: catalogs keep no functions here
CALL sys.create_function(`function` => 'my_db.area_func', `inputParams` => '[{"id": 0, "name":"length", "type":"INT"}]', `returnParams` => '[{"id": 0, "name":"area", "type":"BIGINT"}]', `deterministic` => true, `comment` => 'comment', `options` => 'k1=v1,k2=v2');
--! refused: catalogs keep no functions here
CALL sys.alter_function(`function` => 'my_db.area_func', `change` => '{"action" : "addDefinition", "name" : "spark"}');
--! refused: catalogs keep no functions here
CALL sys.drop_function(`function` => 'my_db.area_func');
--! refused: Functions are Spark's
CREATE FUNCTION mydb.simple_udf AS 'com.example.SimpleUdf' USING JAR '/tmp/SimpleUdf.jar', JAR '/tmp/SimpleUdfR.jar';
--! refused: Functions are Spark's
CREATE TEMPORARY FUNCTION simple_udf AS 'com.example.SimpleUdf' USING JAR '/tmp/SimpleUdf.jar';
--! refused: Functions are Spark's
CREATE OR REPLACE FUNCTION mydb.simple_udf AS 'com.example.SimpleUdf' USING JAR '/tmp/SimpleUdf.jar';
--! refused: Functions are Spark's
CREATE OR REPLACE TEMPORARY FUNCTION simple_udf AS 'com.example.SimpleUdf' USING JAR '/tmp/SimpleUdf.jar';
--! refused: Functions are Spark's
DESCRIBE FUNCTION mydb.simple_udf;
--! refused: Functions are Spark's
DESCRIBE FUNCTION EXTENDED mydb.simple_udf;
--! refused: Functions are Spark's
DROP FUNCTION mydb.simple_udf;
--! refused: Functions are Spark's
DROP TEMPORARY FUNCTION simple_udf;
--! refused: Functions are Spark's
CREATE FUNCTION area(width DOUBLE, height DOUBLE) RETURNS DOUBLE RETURN width * height;
--! refused: Functions are Spark's
CREATE FUNCTION total(d INT) RETURNS INT RETURN SELECT SUM(salary) FROM emp WHERE dept_id = d;
--! refused: Functions are Spark's
CREATE FUNCTION added(x INT, y INT DEFAULT 10) RETURNS INT RETURN x + y;
--! refused: Functions are Spark's
CREATE OR REPLACE FUNCTION inc(x INT) RETURNS INT RETURN x + 100;
--! refused: Functions are Spark's
CREATE FUNCTION IF NOT EXISTS inc(x INT) RETURNS INT RETURN x + 1;
--! refused: Functions are Spark's
SHOW USER FUNCTIONS;
--! refused: Functions are Spark's
DROP FUNCTION IF EXISTS area;
