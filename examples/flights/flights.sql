-- A year of real flights in SQL alone, run by `make demo-sql`. The raw data is a view `raw` over a
-- Parquet file, made before this file is run (tidelake sql -c "CREATE TEMPORARY VIEW raw AS ..." -f ...).
-- All of it is Spark's own SQL, so plain spark.sql runs it, too: `make demo-sql BY=spark.sql`.
--
-- First act: one row a flight, upserted and deleted as its fate becomes known, quarter by quarter.
-- Second act: three streams fill one row a flight; delays per airline follow its changelog, and a
-- cancellation takes back what its flight had added. Every result is compared with what the raw data
-- says; a difference raises an error, and the program ends with 1.

SET spark.sql.session.timeZone = UTC;
SET spark.sql.shuffle.partitions = 2;
CREATE DATABASE air;
USE air;

-- When each fact of each flight became known. The data has clock times: a departure is the scheduled
-- instant plus the delay, a landing the next time that the clock at the destination shows arr_time,
-- a cancellation is known at the minute at which the flight should have left.
CREATE TEMPORARY VIEW departures AS
SELECT *,
    to_timestamp(time_hour) + make_dt_interval(0, 0, minute) AS scheduled_for,
    to_timestamp(time_hour) + make_dt_interval(0, 0, minute + dep_delay) AS departed_at,
    from_utc_timestamp(
        to_timestamp(time_hour) + make_dt_interval(0, 0, minute + dep_delay), dest_zone) AS left_at_clock,
    make_dt_interval(0, 0, arr_time DIV 100 * 60 + arr_time % 100) AS arrival_clock
FROM raw;

CREATE TEMPORARY VIEW facts AS
SELECT month, day, carrier, flight, origin, dest, tailnum, distance, sched_dep_time,
    dep_time, dep_delay, arr_time, arr_delay, air_time,
    TIMESTAMP '2012-12-31 00:00:00' AS published_at,
    departed_at,
    IF(dep_time IS NULL, scheduled_for, NULL) AS cancelled_at,
    to_utc_timestamp(
        date_trunc('day', left_at_clock) + arrival_clock
        + IF(date_trunc('day', left_at_clock) + arrival_clock > left_at_clock,
             INTERVAL '0' DAY, INTERVAL '1' DAY),
        dest_zone) AS landed_at
FROM departures;

CREATE TEMPORARY VIEW quarters AS
SELECT * FROM VALUES
    (1, TIMESTAMP '2013-01-01 00:00:00', TIMESTAMP '2013-04-01 00:00:00'),
    (2, TIMESTAMP '2013-04-01 00:00:00', TIMESTAMP '2013-07-01 00:00:00'),
    (3, TIMESTAMP '2013-07-01 00:00:00', TIMESTAMP '2013-10-01 00:00:00'),
    (4, TIMESTAMP '2013-10-01 00:00:00', TIMESTAMP '2014-02-01 00:00:00')
    AS q(quarter, begins, ends);


-- FIRST ACT. `kind` says what a row does (+U: it replaces, -D: it deletes); of two rows of one flight
-- the later `updated_at` wins, in whatever order they are written.
CREATE TABLE flights (
    month INT, day INT, carrier STRING, flight INT, origin STRING,
    dest STRING, tailnum STRING, distance INT,
    status STRING, dep_delay INT, arr_delay INT, air_time INT,
    updated_at TIMESTAMP_LTZ,
    kind STRING,
    PRIMARY KEY (month, day, carrier, flight, origin) NOT ENFORCED
) PARTITIONED BY (month) TBLPROPERTIES (
    'bucket' = '1',
    'sequence.field' = 'updated_at',
    'rowkind.field' = 'kind'
);

CREATE TEMPORARY VIEW events AS
SELECT month, day, carrier, flight, origin, dest, tailnum, distance, 'departed' AS status,
    dep_delay, CAST(NULL AS INT) AS arr_delay, CAST(NULL AS INT) AS air_time,
    departed_at AS updated_at, '+U' AS kind
FROM facts WHERE departed_at IS NOT NULL
UNION ALL
SELECT month, day, carrier, flight, origin, dest, tailnum, distance,
    IF(arr_delay IS NULL, 'diverted', 'landed'), dep_delay, arr_delay, air_time, landed_at, '+U'
FROM facts WHERE landed_at IS NOT NULL
UNION ALL
SELECT month, day, carrier, flight, origin, dest, tailnum, distance,
    'cancelled', NULL, NULL, NULL, cancelled_at, '-D'
FROM facts WHERE cancelled_at IS NOT NULL;

-- What the table must hold at the end of each quarter, from each flight's own facts.
CREATE TEMPORARY VIEW expected AS
SELECT quarter, month, day, carrier, flight, origin, dest, tailnum, distance,
    CASE WHEN landed_at < ends AND arr_delay IS NULL THEN 'diverted'
         WHEN landed_at < ends THEN 'landed'
         WHEN departed_at < ends THEN 'departed'
         ELSE 'scheduled' END AS status,
    IF(departed_at < ends, dep_delay, NULL) AS dep_delay,
    IF(landed_at < ends, arr_delay, NULL) AS arr_delay,
    IF(landed_at < ends, air_time, NULL) AS air_time,
    CASE WHEN landed_at < ends THEN landed_at
         WHEN departed_at < ends THEN departed_at
         ELSE published_at END AS updated_at
FROM facts CROSS JOIN quarters
WHERE cancelled_at IS NULL OR cancelled_at >= ends;

-- The schedule, then what became known, a commit a quarter; each state gets a name.
INSERT INTO flights
SELECT month, day, carrier, flight, origin, dest, tailnum, distance, 'scheduled', NULL, NULL, NULL,
    published_at, '+I' FROM facts;
INSERT INTO flights SELECT e.* FROM events e JOIN quarters ON updated_at >= begins AND updated_at < ends AND quarter = 1;
CALL sys.create_tag(table => 'air.flights', tag => 'q1');
INSERT INTO flights SELECT e.* FROM events e JOIN quarters ON updated_at >= begins AND updated_at < ends AND quarter = 2;
CALL sys.create_tag(table => 'air.flights', tag => 'q2');
INSERT INTO flights SELECT e.* FROM events e JOIN quarters ON updated_at >= begins AND updated_at < ends AND quarter = 3;
CALL sys.create_tag(table => 'air.flights', tag => 'q3');
INSERT INTO flights SELECT e.* FROM events e JOIN quarters ON updated_at >= begins AND updated_at < ends AND quarter = 4;
CALL sys.create_tag(table => 'air.flights', tag => 'q4');

SELECT snapshot_id, commit_kind, total_record_count, delta_record_count FROM `flights$snapshots` ORDER BY snapshot_id;

-- Time travel: flights by status as they were in summer, and as they are.
SELECT coalesce(june.status, december.status) AS status, june.flights AS end_of_june, december.flights AS end_of_year
FROM (SELECT status, count(*) AS flights FROM flights VERSION AS OF 'q2' GROUP BY status) AS june
FULL JOIN (SELECT status, count(*) AS flights FROM flights GROUP BY status) AS december ON june.status = december.status
ORDER BY 1;

-- Every column of every row, then and now.
CREATE TEMPORARY VIEW found AS
SELECT 1 AS quarter, * EXCEPT (kind) FROM flights VERSION AS OF 'q1'
UNION ALL SELECT 2, * EXCEPT (kind) FROM flights VERSION AS OF 'q2'
UNION ALL SELECT 3, * EXCEPT (kind) FROM flights VERSION AS OF 'q3'
UNION ALL SELECT 4, * EXCEPT (kind) FROM flights;

SELECT IF(count(*) = 0, 'equal', raise_error(concat(count(*), ' rows of flights differ'))) AS flights_checked
FROM (
    (SELECT * FROM found EXCEPT ALL SELECT * FROM expected)
    UNION ALL
    (SELECT * FROM expected EXCEPT ALL SELECT * FROM found)
);


-- SECOND ACT. Each stream knows its own columns and stamps each record with an instant of its own.
-- Delivery is not in the order of these instants: of every fourth flight an estimate of its departure
-- comes a quarter late, and the schedule of every cancelled flight is sent once more after its
-- cancellation. The stamp of a stream decides for its columns, not the order in which records come.
CREATE TABLE board (
    month INT, day INT, carrier STRING, flight INT, origin STRING,
    dest STRING, tailnum STRING, distance INT, state STRING, scheduled_at TIMESTAMP_LTZ,
    dep_time INT, dep_delay INT, departed_at TIMESTAMP_LTZ,
    arr_time INT, arr_delay INT, air_time INT, landed_at TIMESTAMP_LTZ,
    PRIMARY KEY (month, day, carrier, flight, origin) NOT ENFORCED
) PARTITIONED BY (month) TBLPROPERTIES (
    'bucket' = '1',
    'merge-engine' = 'partial-update',
    'fields.scheduled_at.sequence-group' = 'dest,tailnum,distance,state',
    'fields.departed_at.sequence-group' = 'dep_time,dep_delay',
    'fields.landed_at.sequence-group' = 'arr_time,arr_delay,air_time',
    'changelog-producer' = 'lookup'
);

CREATE TABLE delays (
    carrier STRING, month INT, day INT,
    flights BIGINT, miles BIGINT,
    departed BIGINT, dep_minutes BIGINT,
    landed BIGINT, arr_minutes BIGINT,
    worst INT,
    kind STRING,
    PRIMARY KEY (carrier, month, day) NOT ENFORCED
) TBLPROPERTIES (
    'bucket' = '1',
    'merge-engine' = 'aggregation',
    'fields.default-aggregate-function' = 'sum',
    'fields.worst.aggregate-function' = 'max',
    'fields.worst.ignore-retract' = 'true',
    'fields.kind.aggregate-function' = 'last_value',
    'fields.kind.ignore-retract' = 'true',
    'rowkind.field' = 'kind',
    'changelog-producer' = 'full-compaction',
    'full-compaction.delta-commits' = '2'
);

-- What each stream delivers in each quarter; the fifth brings the last stragglers.
CREATE TEMPORARY VIEW schedule_stream AS
SELECT 0 AS part, month, day, carrier, flight, origin, dest, tailnum, distance, 'planned' AS state, published_at AS scheduled_at
FROM facts
UNION ALL
SELECT quarter, month, day, carrier, flight, origin, dest, tailnum, distance, 'cancelled', cancelled_at
FROM facts JOIN quarters ON cancelled_at >= begins AND cancelled_at < ends
UNION ALL
SELECT quarter + 1, month, day, carrier, flight, origin, dest, tailnum, distance, 'planned', published_at
FROM facts JOIN quarters ON cancelled_at >= begins AND cancelled_at < ends;

CREATE TEMPORARY VIEW departure_stream AS
SELECT quarter AS part, month, day, carrier, flight, origin, dep_time, dep_delay, departed_at
FROM facts JOIN quarters ON departed_at >= begins AND departed_at < ends
UNION ALL
SELECT quarter + 1, month, day, carrier, flight, origin, NULL, dep_delay DIV 10 * 10, departed_at - INTERVAL '15' MINUTE
FROM facts JOIN quarters ON departed_at >= begins AND departed_at < ends
WHERE flight % 4 = 1;

CREATE TEMPORARY VIEW arrival_stream AS
SELECT quarter AS part, month, day, carrier, flight, origin, arr_time, arr_delay, air_time, landed_at
FROM facts JOIN quarters ON landed_at >= begins AND landed_at < ends;

-- After each part the delays follow: a row that came adds what its flight means to its airline's day,
-- a row that went takes it back.
INSERT INTO board (month, day, carrier, flight, origin, dest, tailnum, distance, state, scheduled_at)
SELECT * EXCEPT (part) FROM schedule_stream WHERE part = 0;
CALL sys.create_tag(table => 'air.board', tag => 'part0');
INSERT INTO delays
SELECT carrier, month, day, 1, distance, IF(dep_delay IS NULL, 0, 1), coalesce(dep_delay, 0),
    IF(arr_delay IS NULL, 0, 1), coalesce(arr_delay, 0), dep_delay, IF(rowkind LIKE '+%', '+I', '-D')
FROM `board$audit_log` WITH ('incremental-between' = '0,part0') WHERE state = 'planned';

-- The first part.
INSERT INTO board (month, day, carrier, flight, origin, dest, tailnum, distance, state, scheduled_at)
SELECT * EXCEPT (part) FROM schedule_stream WHERE part = 1;
INSERT INTO board (month, day, carrier, flight, origin, dep_time, dep_delay, departed_at)
SELECT * EXCEPT (part) FROM departure_stream WHERE part = 1;
INSERT INTO board (month, day, carrier, flight, origin, arr_time, arr_delay, air_time, landed_at)
SELECT * EXCEPT (part) FROM arrival_stream WHERE part = 1;
CALL sys.create_tag(table => 'air.board', tag => 'part1');
INSERT INTO delays
SELECT carrier, month, day, 1, distance, IF(dep_delay IS NULL, 0, 1), coalesce(dep_delay, 0),
    IF(arr_delay IS NULL, 0, 1), coalesce(arr_delay, 0), dep_delay, IF(rowkind LIKE '+%', '+I', '-D')
FROM `board$audit_log` WITH ('incremental-between' = 'part0,part1') WHERE state = 'planned';

-- The second part.
INSERT INTO board (month, day, carrier, flight, origin, dest, tailnum, distance, state, scheduled_at)
SELECT * EXCEPT (part) FROM schedule_stream WHERE part = 2;
INSERT INTO board (month, day, carrier, flight, origin, dep_time, dep_delay, departed_at)
SELECT * EXCEPT (part) FROM departure_stream WHERE part = 2;
INSERT INTO board (month, day, carrier, flight, origin, arr_time, arr_delay, air_time, landed_at)
SELECT * EXCEPT (part) FROM arrival_stream WHERE part = 2;
CALL sys.create_tag(table => 'air.board', tag => 'part2');
INSERT INTO delays
SELECT carrier, month, day, 1, distance, IF(dep_delay IS NULL, 0, 1), coalesce(dep_delay, 0),
    IF(arr_delay IS NULL, 0, 1), coalesce(arr_delay, 0), dep_delay, IF(rowkind LIKE '+%', '+I', '-D')
FROM `board$audit_log` WITH ('incremental-between' = 'part1,part2') WHERE state = 'planned';

-- The third part.
INSERT INTO board (month, day, carrier, flight, origin, dest, tailnum, distance, state, scheduled_at)
SELECT * EXCEPT (part) FROM schedule_stream WHERE part = 3;
INSERT INTO board (month, day, carrier, flight, origin, dep_time, dep_delay, departed_at)
SELECT * EXCEPT (part) FROM departure_stream WHERE part = 3;
INSERT INTO board (month, day, carrier, flight, origin, arr_time, arr_delay, air_time, landed_at)
SELECT * EXCEPT (part) FROM arrival_stream WHERE part = 3;
CALL sys.create_tag(table => 'air.board', tag => 'part3');
INSERT INTO delays
SELECT carrier, month, day, 1, distance, IF(dep_delay IS NULL, 0, 1), coalesce(dep_delay, 0),
    IF(arr_delay IS NULL, 0, 1), coalesce(arr_delay, 0), dep_delay, IF(rowkind LIKE '+%', '+I', '-D')
FROM `board$audit_log` WITH ('incremental-between' = 'part2,part3') WHERE state = 'planned';

-- The fourth part.
INSERT INTO board (month, day, carrier, flight, origin, dest, tailnum, distance, state, scheduled_at)
SELECT * EXCEPT (part) FROM schedule_stream WHERE part = 4;
INSERT INTO board (month, day, carrier, flight, origin, dep_time, dep_delay, departed_at)
SELECT * EXCEPT (part) FROM departure_stream WHERE part = 4;
INSERT INTO board (month, day, carrier, flight, origin, arr_time, arr_delay, air_time, landed_at)
SELECT * EXCEPT (part) FROM arrival_stream WHERE part = 4;
CALL sys.create_tag(table => 'air.board', tag => 'part4');
INSERT INTO delays
SELECT carrier, month, day, 1, distance, IF(dep_delay IS NULL, 0, 1), coalesce(dep_delay, 0),
    IF(arr_delay IS NULL, 0, 1), coalesce(arr_delay, 0), dep_delay, IF(rowkind LIKE '+%', '+I', '-D')
FROM `board$audit_log` WITH ('incremental-between' = 'part3,part4') WHERE state = 'planned';

-- The last part.
INSERT INTO board (month, day, carrier, flight, origin, dest, tailnum, distance, state, scheduled_at)
SELECT * EXCEPT (part) FROM schedule_stream WHERE part = 5;
INSERT INTO board (month, day, carrier, flight, origin, dep_time, dep_delay, departed_at)
SELECT * EXCEPT (part) FROM departure_stream WHERE part = 5;
CALL sys.create_tag(table => 'air.board', tag => 'part5');
INSERT INTO delays
SELECT carrier, month, day, 1, distance, IF(dep_delay IS NULL, 0, 1), coalesce(dep_delay, 0),
    IF(arr_delay IS NULL, 0, 1), coalesce(arr_delay, 0), dep_delay, IF(rowkind LIKE '+%', '+I', '-D')
FROM `board$audit_log` WITH ('incremental-between' = 'part4,part5') WHERE state = 'planned';

-- The flight that left last, 21 hours and 41 minutes late, as the changelog tells of it.
SELECT rowkind, state, tailnum, dep_time, dep_delay, arr_time, arr_delay
FROM `board$audit_log` WITH ('incremental-between' = '0,part5')
WHERE month = 1 AND day = 9 AND carrier = 'HA' AND flight = 51;

-- What both tables must hold, from each flight's own facts.
CREATE TEMPORARY VIEW expected_board AS
SELECT month, day, carrier, flight, origin, dest, tailnum, distance,
    IF(cancelled_at IS NULL, 'planned', 'cancelled') AS state,
    coalesce(cancelled_at, published_at) AS scheduled_at,
    dep_time, dep_delay, departed_at,
    IF(landed_at IS NULL, NULL, arr_time) AS arr_time,
    IF(landed_at IS NULL, NULL, arr_delay) AS arr_delay,
    IF(landed_at IS NULL, NULL, air_time) AS air_time,
    landed_at
FROM facts;

CREATE TEMPORARY VIEW expected_delays AS
SELECT carrier, month, day,
    count_if(goes) AS flights, sum(IF(goes, distance, 0)) AS miles,
    count_if(goes) AS departed, sum(IF(goes, dep_delay, 0)) AS dep_minutes,
    count_if(lands) AS landed, sum(IF(lands, arr_delay, 0)) AS arr_minutes,
    max(IF(goes, dep_delay, NULL)) AS worst
FROM (SELECT *, cancelled_at IS NULL AS goes, landed_at IS NOT NULL AND arr_delay IS NOT NULL AS lands FROM facts)
GROUP BY carrier, month, day;

-- The changelogs, replayed in whatever order: what came more often than it went must be the tables.
-- That of delays is complete too: every second of its six commits brought a full compaction.
CREATE TEMPORARY VIEW replayed_board AS
SELECT * EXCEPT (times) FROM (
    SELECT * EXCEPT (rowkind), sum(IF(rowkind LIKE '+%', 1, -1)) AS times
    FROM `board$audit_log` WITH ('incremental-between' = '0,part5')
    GROUP BY ALL
) WHERE times <> 0;

SELECT IF(count(*) = 0, 'equal', raise_error(concat(count(*), ' rows of the changelog of board differ'))) AS board_replayed
FROM (
    (SELECT * FROM replayed_board EXCEPT ALL SELECT * FROM expected_board)
    UNION ALL
    (SELECT * FROM expected_board EXCEPT ALL SELECT * FROM replayed_board)
);

CALL sys.create_tag(table => 'air.delays', tag => 'part5');
CREATE TEMPORARY VIEW replayed_delays AS
SELECT * EXCEPT (times) FROM (
    SELECT * EXCEPT (rowkind, kind), sum(IF(rowkind LIKE '+%', 1, -1)) AS times
    FROM `delays$audit_log` WITH ('incremental-between' = '0,part5')
    GROUP BY ALL
) WHERE times <> 0;

SELECT IF(count(*) = 0, 'equal', raise_error(concat(count(*), ' rows of the changelog of delays differ'))) AS delays_replayed
FROM (
    (SELECT * FROM replayed_delays EXCEPT ALL SELECT * FROM expected_delays)
    UNION ALL
    (SELECT * FROM expected_delays EXCEPT ALL SELECT * FROM replayed_delays)
);

-- Compaction: files before and after, and the same query over them, whose answer must be the same.
CREATE TEMPORARY VIEW expected_late AS
SELECT carrier, count(*) AS flights, sum(dep_delay) AS late_minutes FROM facts WHERE cancelled_at IS NULL GROUP BY carrier;

SELECT count(*) AS files, sum(record_count) AS records, sum(file_size_in_bytes) AS bytes FROM `board$files`;
CREATE TEMPORARY VIEW late_before AS
SELECT carrier, count(*) AS flights, sum(dep_delay) AS late_minutes
FROM board VERSION AS OF 'part5' WHERE state = 'planned' GROUP BY carrier;
SELECT * FROM late_before ORDER BY carrier;

SELECT IF(count(*) = 0, 'equal', raise_error(concat(count(*), ' sums before compaction differ'))) AS late_before_checked
FROM (
    (SELECT * FROM late_before EXCEPT ALL SELECT * FROM expected_late)
    UNION ALL
    (SELECT * FROM expected_late EXCEPT ALL SELECT * FROM late_before)
);

CALL sys.compact(table => 'air.board', compact_strategy => 'full');
CALL sys.compact(table => 'air.delays', compact_strategy => 'full');
SELECT count(*) AS files, sum(record_count) AS records, sum(file_size_in_bytes) AS bytes FROM `board$files`;
CREATE TEMPORARY VIEW late_after AS
SELECT carrier, count(*) AS flights, sum(dep_delay) AS late_minutes FROM board WHERE state = 'planned' GROUP BY carrier;
SELECT * FROM late_after ORDER BY carrier;

SELECT IF(count(*) = 0, 'equal', raise_error(concat(count(*), ' sums after compaction differ'))) AS late_after_checked
FROM (
    (SELECT * FROM late_after EXCEPT ALL SELECT * FROM expected_late)
    UNION ALL
    (SELECT * FROM expected_late EXCEPT ALL SELECT * FROM late_after)
);

-- Both tables as they are now, every column of every row; and a compaction is no change.
SELECT IF(count(*) = 0, 'equal', raise_error(concat(count(*), ' rows of board differ'))) AS board_checked
FROM (
    (SELECT * FROM board EXCEPT ALL SELECT * FROM expected_board)
    UNION ALL
    (SELECT * FROM expected_board EXCEPT ALL SELECT * FROM board)
);

SELECT IF(count(*) = 0, 'equal', raise_error(concat(count(*), ' rows of delays differ'))) AS delays_checked
FROM (
    (SELECT * EXCEPT (kind) FROM delays EXCEPT ALL SELECT * FROM expected_delays)
    UNION ALL
    (SELECT * FROM expected_delays EXCEPT ALL SELECT * EXCEPT (kind) FROM delays)
);

CALL sys.create_tag(table => 'air.board', tag => 'compacted');
CALL sys.create_tag(table => 'air.delays', tag => 'compacted');
SELECT IF(count(*) = 0, 'none', raise_error(concat(count(*), ' changes told by the compaction'))) AS changes_told
FROM (
    SELECT rowkind FROM `board$audit_log` WITH ('incremental-between' = 'part5,compacted')
    UNION ALL
    SELECT rowkind FROM `delays$audit_log` WITH ('incremental-between' = 'part5,compacted')
);

-- The answer: who is late, and how much of it they make good in the air.
SELECT carrier, sum(departed) AS departed, round(sum(dep_minutes) / sum(departed), 1) AS minutes_late,
    round(sum(arr_minutes) / sum(landed), 1) AS late_at_arrival, max(worst) AS worst
FROM delays GROUP BY carrier ORDER BY minutes_late DESC;
