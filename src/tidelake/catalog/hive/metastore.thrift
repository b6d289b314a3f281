// What Tidelake asks of a Hive Metastore: numbers and types of fields are the protocol's.
// A field that is not named here is skipped when it is read.

enum LockState { ACQUIRED = 1, WAITING = 2, ABORT = 3, NOT_ACQUIRED = 4 }
enum LockType { SHARED_READ = 1, SHARED_WRITE = 2, EXCLUSIVE = 3 }
enum LockLevel { DB = 1, TABLE = 2, PARTITION = 3 }
enum DataOperationType { SELECT = 1, INSERT = 2, UPDATE = 3, DELETE = 4, UNSET = 5, NO_TXN = 6 }
enum PrincipalType { USER = 1, ROLE = 2, GROUP = 3 }
enum PartitionEventType { LOAD_DONE = 1 }

struct FieldSchema { 1: string name, 2: string type, 3: string comment }

struct Order { 1: string col, 2: i32 order }

struct SerDeInfo {
  1: string name, 2: string serializationLib, 3: map<string, string> parameters
}

struct StorageDescriptor {
  1: list<FieldSchema> cols, 2: string location, 3: string inputFormat, 4: string outputFormat,
  5: bool compressed, 6: i32 numBuckets, 7: SerDeInfo serdeInfo, 8: list<string> bucketCols,
  9: list<Order> sortCols, 10: map<string, string> parameters, 12: optional bool storedAsSubDirectories
}

struct Table {
  1: string tableName, 2: string dbName, 3: string owner, 4: i32 createTime, 5: i32 lastAccessTime,
  6: i32 retention, 7: StorageDescriptor sd, 8: list<FieldSchema> partitionKeys,
  9: map<string, string> parameters, 10: string viewOriginalText, 11: string viewExpandedText,
  12: string tableType, 14: optional bool temporary, 15: optional bool rewriteEnabled
}

struct Partition {
  1: list<string> values, 2: string dbName, 3: string tableName, 4: i32 createTime,
  5: i32 lastAccessTime, 6: StorageDescriptor sd, 7: map<string, string> parameters
}

struct Database {
  1: string name, 2: string description, 3: string locationUri, 4: map<string, string> parameters,
  6: optional string ownerName, 7: optional PrincipalType ownerType
}

struct EnvironmentContext { 1: map<string, string> properties }

struct AddPartitionsRequest {
  1: string dbName, 2: string tblName, 3: list<Partition> parts, 4: bool ifNotExists,
  5: optional bool needResult
}
struct AddPartitionsResult { 1: optional list<Partition> partitions }

struct GetTableRequest { 1: string dbName, 2: string tblName }
struct GetTableResult { 1: Table table }
struct GetTablesRequest { 1: string dbName, 2: optional list<string> tblNames }
struct GetTablesResult { 1: list<Table> tables }

struct LockComponent {
  1: LockType type, 2: LockLevel level, 3: string dbname, 4: optional string tablename,
  6: optional DataOperationType operationType
}
struct LockRequest {
  1: list<LockComponent> component, 2: optional i64 txnid, 3: string user, 4: string hostname
}
struct LockResponse { 1: i64 lockid, 2: LockState state }
struct CheckLockRequest { 1: i64 lockid }
struct UnlockRequest { 1: i64 lockid }

exception MetaException { 1: string message }
exception NoSuchObjectException { 1: string message }
exception AlreadyExistsException { 1: string message }
exception InvalidObjectException { 1: string message }
exception InvalidOperationException { 1: string message }
exception UnknownDBException { 1: string message }
exception UnknownTableException { 1: string message }
exception UnknownPartitionException { 1: string message }
exception InvalidPartitionException { 1: string message }
exception NoSuchTxnException { 1: string message }
exception TxnAbortedException { 1: string message }
exception TxnOpenException { 1: string message }
exception NoSuchLockException { 1: string message }

service ThriftHiveMetastore {
  list<string> set_ugi(1: string user_name, 2: list<string> group_names) throws (1: MetaException o1)

  list<string> get_all_databases() throws (1: MetaException o1)
  Database get_database(1: string name) throws (1: NoSuchObjectException o1, 2: MetaException o2)
  void create_database(1: Database database) throws (
    1: AlreadyExistsException o1, 2: InvalidObjectException o2, 3: MetaException o3)
  void drop_database(1: string name, 2: bool deleteData, 3: bool cascade) throws (
    1: NoSuchObjectException o1, 2: InvalidOperationException o2, 3: MetaException o3)
  void alter_database(1: string dbname, 2: Database db) throws (
    1: MetaException o1, 2: NoSuchObjectException o2)

  list<string> get_all_tables(1: string db_name) throws (1: MetaException o1)
  Table get_table(1: string dbname, 2: string tbl_name) throws (
    1: MetaException o1, 2: NoSuchObjectException o2)
  list<Table> get_table_objects_by_name(1: string dbname, 2: list<string> tbl_names) throws (
    1: MetaException o1, 2: InvalidOperationException o2, 3: UnknownDBException o3)
  // Hive 3 and later; Hive 4 has these alone
  GetTableResult get_table_req(1: GetTableRequest req) throws (
    1: MetaException o1, 2: NoSuchObjectException o2)
  GetTablesResult get_table_objects_by_name_req(1: GetTablesRequest req) throws (
    1: MetaException o1, 2: InvalidOperationException o2, 3: UnknownDBException o3)
  void create_table(1: Table tbl) throws (
    1: AlreadyExistsException o1, 2: InvalidObjectException o2, 3: MetaException o3,
    4: NoSuchObjectException o4)
  void drop_table(1: string dbname, 2: string name, 3: bool deleteData) throws (
    1: NoSuchObjectException o1, 2: MetaException o3)
  void alter_table_with_environment_context(
    1: string dbname, 2: string tbl_name, 3: Table new_tbl, 4: EnvironmentContext environment_context
  ) throws (1: InvalidOperationException o1, 2: MetaException o2)

  AddPartitionsResult add_partitions_req(1: AddPartitionsRequest request) throws (
    1: InvalidObjectException o1, 2: AlreadyExistsException o2, 3: MetaException o3)
  list<Partition> get_partitions(1: string db_name, 2: string tbl_name, 3: i16 max_parts) throws (
    1: NoSuchObjectException o1, 2: MetaException o2)
  bool drop_partition(
    1: string db_name, 2: string tbl_name, 3: list<string> part_vals, 4: bool deleteData
  ) throws (1: NoSuchObjectException o1, 2: MetaException o2)
  void alter_partition(1: string db_name, 2: string tbl_name, 3: Partition new_part) throws (
    1: InvalidOperationException o1, 2: MetaException o2)
  void markPartitionForEvent(
    1: string db_name, 2: string tbl_name, 3: map<string, string> part_vals,
    4: PartitionEventType eventType
  ) throws (
    1: MetaException o1, 2: NoSuchObjectException o2, 3: UnknownDBException o3,
    4: UnknownTableException o4, 5: UnknownPartitionException o5, 6: InvalidPartitionException o6)

  LockResponse lock(1: LockRequest rqst) throws (1: NoSuchTxnException o1, 2: TxnAbortedException o2)
  LockResponse check_lock(1: CheckLockRequest rqst) throws (
    1: NoSuchTxnException o1, 2: TxnAbortedException o2, 3: NoSuchLockException o3)
  void unlock(1: UnlockRequest rqst) throws (1: NoSuchLockException o1, 2: TxnOpenException o2)
}
