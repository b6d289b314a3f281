--! page: Procedures
--! setup:
CREATE TABLE T (a INT NOT NULL, b INT, p INT NOT NULL, day STRING NOT NULL) PARTITIONED BY (p, day) TBLPROPERTIES ('primary-key' = 'a,p,day', 'bucket' = '1'); INSERT INTO T VALUES (1, 1, 1, '2024-07-01'); INSERT INTO T VALUES (2, 2, 1, '2024-07-02'); INSERT INTO T VALUES (3, 2, 0, '2024-07-02');
--! refused: files of a primary-key table are sorted by its key
CALL sys.compact(table => 'T', partitions => 'p=0;p=1', order_strategy => 'zorder', order_by => 'a,b');
--! refused: files of a primary-key table are sorted by its key
CALL sys.compact(table => 'T', where => 'p>0 and p<3', order_strategy => 'zorder', order_by => 'a,b');
--! refused: files of a primary-key table are sorted by its key
CALL sys.compact(table => 'T', where => 'p>0 and p<3', order_strategy => 'zorder', order_by => 'a,b', options => 'target-file-size=128m');
CALL sys.compact(table => 'T', partition_idle_time => '60s');
CALL sys.compact(table => 'T', compact_strategy => 'minor');
--! refused: materialize_deletion_vectors
CALL sys.materialize_deletion_vectors(table => 'T');
--! refused: materialize_deletion_vectors
CALL sys.materialize_deletion_vectors(table => 'T', partitions => 'dt=2026-08-12');
CALL sys.compact_database();
CALL sys.compact_database(including_databases => 'db1|db2');
CALL sys.compact_database(including_databases => 'db1', including_tables => 'db1.table1|db1.table2');
CALL sys.compact_database(including_databases => 'db1', including_tables => '.*', excluding_tables => '.*ignore_table');
CALL sys.compact_database(including_databases => 'db1', options => 'target-file-size=128m');
--! refused: compact_chain_table
CALL sys.compact_chain_table(table => 'default.T', partition => 'dt="20250810",hour="22"');
CALL sys.expire_snapshots(table => 'default.T', retain_max => 10, options => 'snapshot.expire.limit=1');
--! refused: 'partition.timestamp-pattern' is '$dt'
CALL sys.expire_partitions(table => 'default.T', expiration_time => '1 d', timestamp_formatter => 'yyyy-MM-dd', timestamp_pattern => '$dt', expire_strategy => 'values-time', options => 'partition.expiration-max-num=2');
CALL sys.create_tag(table => 'default.T', tag => 'my_tag', snapshot => 2, time_retained => '1 d');
CALL sys.create_tag(table => 'default.T', tag => 'tag0');
CALL sys.create_tag_from_timestamp(`table` => 'default.T', `tag` => 'tag1', `timestamp` => 1724404318750, time_retained => '1 d');
CALL sys.rename_tag(table => 'default.T', tag => 'tag1', target_tag => 'tag2');
CALL sys.replace_tag(table => 'default.T', tag => 'tag2', snapshot => 2, time_retained => '1 d');
CALL sys.delete_tag(table => 'default.T', tag => 'tag0');
CALL sys.expire_tags(table => 'default.T', older_than => '2024-09-06 11:00:00');
CALL sys.trigger_tag_automatic_creation(table => 'default.T');
CALL sys.rollback(table => 'default.T', version => 'my_tag');
CALL sys.rollback(table => 'default.T', version => 2);
CALL sys.rollback(table => 'default.T', tag => 'tag2');
CALL sys.rollback(table => 'default.T', snapshot => 2);
CALL sys.rollback_to_timestamp(table => 'default.T', timestamp => 17302920230000);
--! refused: watermark
CALL sys.rollback_to_watermark(table => 'default.T', watermark => 1730292023000);
CALL sys.purge_files(table => 'default.T');
--! refused: migrate_database
CALL sys.migrate_database(source_type => 'hive', database => 'db01', options => 'file.format=parquet', options_map => map('k1','v1'), parallelism => 6);
--! refused: migrate_table
CALL sys.migrate_table(source_type => 'hive', table => 'default.T', options => 'file.format=parquet', options_map => map('k1','v1'), parallelism => 6);
CALL sys.remove_orphan_files(table => 'default.T', older_than => '2023-10-31 12:00:00');
CALL sys.remove_orphan_files(table => 'default.*', older_than => '2023-10-31 12:00:00');
CALL sys.remove_orphan_files(table => 'default.T', older_than => '2023-10-31 12:00:00', dry_run => true);
CALL sys.remove_orphan_files(table => 'default.T', older_than => '2023-10-31 12:00:00', dry_run => true, parallelism => 5);
CALL sys.remove_orphan_files(table => 'default.T', older_than => '2023-10-31 12:00:00', dry_run => true, parallelism => 5, mode => 'local');
--! refused: mydb
CALL sys.remove_unexisting_files(table => 'mydb.myt');
--! refused: =>
CALL sys.remove_unexisting_files(table => 'mydb.myt', dry_run = true);
--! refused: repair
CALL sys.repair('test_db.T');
--! refused: repair
CALL sys.repair('test_db.T,test_db01,test_db.T2');
--! refused: repair_earliest_snapshot
CALL sys.repair_earliest_snapshot(table => 'test_db.T', snapshot_id => 10);
--! setup:
CREATE DATABASE test_db;
--! setup:
CREATE TABLE test_db.T (a INT);
CALL sys.create_branch(table => 'test_db.T', branch => 'test_branch');
--! refused: Branch 'test_branch' of table 'test_db.T' exists
CALL sys.create_branch(table => 'test_db.T', branch => 'test_branch', tag => 'my_tag');
--! refused: has no branch 'existBranchName'
CALL sys.create_branch(table => 'test_db.T$branch_existBranchName', branch => 'test_branch', tag => 'my_tag');
CALL sys.delete_branch(table => 'test_db.T', branch => 'test_branch');
--! refused: has no branch 'test_branch'
CALL sys.rename_branch(table => 'test_db.T', from_branch => 'test_branch', to_branch => 'new_branch');
--! refused: has no branch 'test_branch'
CALL sys.fast_forward(table => 'test_db.T', branch => 'test_branch');
--! refused: merge_branch
CALL sys.merge_branch(table => 'test_db.T', source_branch => 'branch1');
--! refused: merge_branch
CALL sys.merge_branch(table => 'test_db.T', source_branch => 'branch1', target_branch => 'branch2');
--! refused: has no snapshot 10
CALL sys.reset_consumer(table => 'default.T', consumerId => 'myid', nextSnapshotId => 10);
CALL sys.reset_consumer(table => 'default.T', consumerId => 'myid');
CALL sys.clear_consumers(table => 'default.T');
CALL sys.clear_consumers(table => 'default.T', includingConsumers => 'myid.*');
CALL sys.clear_consumers(table => 'default.T', includingConsumers => '', excludingConsumers => 'myid1.*');
CALL sys.clear_consumers(table => 'default.T', includingConsumers => 'myid.*', excludingConsumers => 'myid1.*');
--! setup:
CREATE TABLE D (a INT, day STRING) PARTITIONED BY (day);
CALL sys.mark_partition_done(table => 'default.D', partitions => 'day=2024-07-01');
CALL sys.mark_partition_done(table => 'default.D', partitions => 'day=2024-07-01;day=2024-07-02');
CALL sys.compact_manifest(`table` => 'default.T');
--! refused: dry_run
CALL sys.compact_manifest(`table` => 'default.T', dry_run => true);
--! refused: manifest_sort_enabled
CALL sys.compact_manifest(`table` => 'default.T', manifest_sort_enabled => true, manifest_sort_partition_field => 'dt', manifest_sort_max_rewrite_size => '1 gb');
--! refused: view_identifier
CALL sys.alter_view_dialect('view_identifier', 'add', 'spark', 'query');
--! refused: view_identifier
CALL sys.alter_view_dialect(`view` => 'view_identifier', `action` => 'add', `query` => 'query');
--! refused: view_identifier
CALL sys.alter_view_dialect('view_identifier', 'update', 'spark', 'query');
--! refused: view_identifier
CALL sys.alter_view_dialect(`view` => 'view_identifier', `action` => 'update', `query` => 'query');
--! refused: view_identifier
CALL sys.alter_view_dialect('view_identifier', 'drop', 'spark');
--! refused: view_identifier
CALL sys.alter_view_dialect(`view` => 'view_identifier', `action` => 'drop');
--! refused: create_function
CALL sys.create_function(`function` => 'function_identifier', `inputParams` => '[]', `returnParams` => '[]', `deterministic` => true, `comment` => 'comment', `options` => 'k1=v1,k2=v2');
--! refused: alter_function
CALL sys.alter_function(`function` => 'function_identifier', `change` => '{"action" : "addDefinition", "name" : "spark"}');
--! refused: drop_function
CALL sys.drop_function(`function` => 'function_identifier');
--! refused: 't'
CALL sys.rewrite_file_index(table => "t");
--! refused: 't'
CALL sys.rewrite_file_index(table => "t", where => "day = '2025-08-17'");
--! refused: create_global_index
CALL sys.create_global_index(table => 'default.T', index_column => 'name', index_type => 'btree');
--! refused: create_global_index
CALL sys.create_global_index(table => 'default.T', index_column => 'tag', index_type => 'bitmap', options => 'sorted-index.records-per-range=1000000');
--! refused: create_global_index
CALL sys.create_global_index(table => 'default.T', index_column => 'name', index_type => 'btree', partitions => 'pt=p1;pt=p2');
--! refused: create_global_index
CALL sys.create_global_index(table => 'default.T', index_column => 'content', index_type => 'full-text', options => 'full-text.tokenizer=ngram,full-text.ngram.min-gram=2,full-text.ngram.max-gram=2');
--! refused: create_global_index
CALL sys.create_global_index(table => 'default.T', index_column => 'content', index_type => 'full-text', options => 'full-text.tokenizer=jieba');
--! refused: create_global_index
CALL sys.create_global_index(table => 'default.T', index_column => 'content', index_type => 'full-text', options => 'full-text.tokenizer=simple,full-text.stem=true');
--! refused: drop_global_index
CALL sys.drop_global_index(table => 'default.T', index_column => 'name', index_type => 'btree', partitions => 'pt=p1');
--! refused: drop_global_index
CALL sys.drop_global_index(table => 'default.T', index_column => 'name', index_type => 'btree', dry_run => true);
--! refused: reassign_row_id
CALL sys.reassign_row_id(table => 'default.T');
--! refused: reassign_row_id
CALL sys.reassign_row_id(table => 'default.T', partitions => 'dt=2026-05-19');
--! refused: t1
CALL sys.copy(source_table => "t1", target_table => "t1_copy");
--! refused: t1
CALL sys.copy(source_table => "t1", target_table => "t1_copy", where => "day = '2025-08-17'");
CALL sys.rescale(table => 'default.T', bucket_num => 16, partitions => 'p=1,day=2024-07-01;p=1,day=2024-07-02');
