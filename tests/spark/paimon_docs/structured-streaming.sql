--! page: Structured Streaming
CREATE TABLE T (k INT, v STRING) TBLPROPERTIES ('primary-key'='k', 'bucket'='3');
ALTER TABLE T SET TBLPROPERTIES ('consumer.expiration-time' = '1 d');
