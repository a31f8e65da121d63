-- A file of the first version of the schema, as `.dump` shows it. It stays what it is.
BEGIN TRANSACTION;
CREATE TABLE lars_meta (
    version INTEGER NOT NULL,           -- of the schema
    epoch   INTEGER NOT NULL,           -- + 1 each time the file is opened
    next_id INTEGER NOT NULL,           -- identities below it are taken
    last_batch INTEGER,                 -- token of the last batch of calls, to know it again
    store   BLOB    NOT NULL,           -- of the file, and of no other
    grp     TEXT                        -- of the node that opened the file last
) STRICT;
INSERT INTO "lars_meta" VALUES(1,3,6,NULL,X'000102030405060708090A0B0C0D0E0F','default');
CREATE TABLE lars_parked (
    id              INTEGER PRIMARY KEY,
    grp             TEXT    NOT NULL,
    bucket          INTEGER NOT NULL,
    deadline        INTEGER NOT NULL,
    planned_at      INTEGER NOT NULL,
    key             TEXT,
    handler         TEXT    NOT NULL,
    payload_version INTEGER NOT NULL,
    payload         TEXT    NOT NULL,
    repeat          TEXT,
    remember        INTEGER NOT NULL,
    attempt         INTEGER NOT NULL,
    deaths          INTEGER NOT NULL,
    last_error      TEXT,
    run             INTEGER NOT NULL,
    origin          INTEGER,
    reason          TEXT    NOT NULL,
    parked_at       INTEGER NOT NULL
) STRICT;
INSERT INTO "lars_parked" VALUES(5,'default',0,1764000000000000,1764000000000000,'series','note',1,'"parked"',NULL,0,25,0,'no route',40,3,'attempt 25 failed: no route',1764000000000001);
CREATE TABLE lars_paused (
    grp     TEXT NOT NULL,
    handler TEXT NOT NULL,
    PRIMARY KEY (grp, handler)
) STRICT, WITHOUT ROWID;
INSERT INTO "lars_paused" VALUES('default','stopped');
CREATE TABLE lars_timer (
    id              INTEGER PRIMARY KEY,
    grp             TEXT    NOT NULL,
    bucket          INTEGER NOT NULL,
    due_at          INTEGER NOT NULL,   -- when it is looked at: indexed, <= deadline
    deadline        INTEGER NOT NULL,   -- when it may run: not indexed, so that pushing it out is cheap
    planned_at      INTEGER NOT NULL,   -- what the run is meant for: stays while it is tried again
    key             TEXT,
    handler         TEXT    NOT NULL,
    payload_version INTEGER NOT NULL,
    payload         TEXT    NOT NULL,   -- JSON
    repeat          TEXT,               -- JSON: the rule of a series
    remember        INTEGER NOT NULL,   -- how long the key stays taken after the last run
    attempt         INTEGER NOT NULL DEFAULT 0,
    deaths          INTEGER NOT NULL DEFAULT 0,
    fence           INTEGER,            -- NULL: not started; else the token of the run: epoch << 32 | n
    last_error      TEXT,
    run             INTEGER NOT NULL DEFAULT 0, -- how many runs of a series are over
    origin          INTEGER,            -- of a run that was parked: the series that went on
    unknown_since   INTEGER             -- when it was first put off because nobody could run it
) STRICT;
INSERT INTO "lars_timer" VALUES(1,'default',0,1764000000000000,1764000000000000,1764000000000000,'once','note',1,'"once"',NULL,3600000000,0,0,NULL,NULL,0,NULL,NULL);
INSERT INTO "lars_timer" VALUES(2,'default',0,1764000000000005,1764000000000005,1764000000000005,'died','note',1,'"died"',NULL,0,1,0,12884901895,NULL,0,NULL,NULL);
INSERT INTO "lars_timer" VALUES(3,'default',0,4102444800000000,4102444800000000,4102444800000000,'series','note',1,'"series"','{"kind":"fixed_rate","every":3600000000,"missed":"burst"}',0,0,0,NULL,NULL,41,NULL,NULL);
CREATE TABLE lars_used_key (
    grp   TEXT    NOT NULL,
    key   TEXT    NOT NULL,
    until INTEGER NOT NULL,
    PRIMARY KEY (grp, key)
) STRICT, WITHOUT ROWID;
INSERT INTO "lars_used_key" VALUES('default','used',4102444800000000);
CREATE INDEX lars_timer_due ON lars_timer (grp, bucket, due_at, id);
CREATE UNIQUE INDEX lars_timer_key ON lars_timer (grp, key) WHERE key IS NOT NULL;
CREATE INDEX lars_parked_group ON lars_parked (grp, id);
CREATE INDEX lars_used_key_until ON lars_used_key (grp, until);
CREATE VIEW lars_group AS
WITH RECURSIVE each (grp) AS (
    SELECT min(grp) FROM lars_timer
    UNION ALL
    SELECT (SELECT min(t.grp) FROM lars_timer t WHERE t.grp > each.grp) FROM each
     WHERE each.grp IS NOT NULL
)
SELECT grp FROM each WHERE grp IS NOT NULL;
CREATE VIEW lars_overview AS
SELECT id, grp, handler, key, attempt, deaths, fence IS NOT NULL AS started, repeat,
       CASE deadline WHEN 9223372036854775807 THEN 'never'
            ELSE strftime('%Y-%m-%d %H:%M:%f', deadline / 1e6, 'unixepoch') END AS deadline_utc,
       last_error
  FROM lars_timer
 WHERE id IN (SELECT value FROM lars_group g, json_each((
                 SELECT json_group_array(id) FROM (
                        SELECT t.id FROM lars_timer t WHERE t.grp = g.grp AND t.bucket = 0
                         ORDER BY t.due_at, t.id LIMIT 1000))))
 ORDER BY due_at;
CREATE VIEW lars_by_handler AS
SELECT grp, handler, sum(NOT started) AS pending, sum(started) AS running,
       sum(NOT started AND attempt > 0) AS retrying, min(deadline_utc) AS next_utc
  FROM lars_overview
 GROUP BY grp, handler;
CREATE VIEW lars_schedule (handler, payload, delay, key, payload_version, remember, on_conflict,
                           fixed_delay, fixed_rate, missed, id, started) AS
SELECT handler, payload, deadline / 1e6 - (julianday('now') - 2440587.5) * 86400, key,
       payload_version, remember / 1e6, NULL, json_extract(repeat, '$.delay') / 1e6,
       json_extract(repeat, '$.every') / 1e6, json_extract(repeat, '$.missed'), id,
       fence IS NOT NULL
  FROM lars_timer WHERE grp = (SELECT grp FROM lars_meta);
CREATE TRIGGER lars_schedule_insert INSTEAD OF INSERT ON lars_schedule
BEGIN
    SELECT CASE
        WHEN (SELECT grp IS NULL FROM lars_meta)
        THEN RAISE(ABORT, 'lars_schedule: no node has opened this file')
        WHEN NEW.id IS NOT NULL OR NEW.started IS NOT NULL
        THEN RAISE(ABORT, 'lars_schedule: id and started cannot be given')
        WHEN typeof(NEW.handler) <> 'text' OR NEW.handler = ''
        THEN RAISE(ABORT, 'lars_schedule: handler must be a text that is not empty')
        WHEN typeof(NEW.payload) <> 'text' OR NOT json_valid(NEW.payload)
        THEN RAISE(ABORT, 'lars_schedule: payload must be JSON, as text')
        WHEN length(CAST(NEW.payload AS BLOB)) > 65536
        THEN RAISE(ABORT, 'lars_schedule: payload may have at most 65536 bytes')
        WHEN typeof(NEW.delay) NOT IN ('integer', 'real')
        THEN RAISE(ABORT, 'lars_schedule: delay must be a number of seconds')
        WHEN typeof(NEW.key) NOT IN ('text', 'null')
             OR length(CAST(NEW.key AS BLOB)) NOT BETWEEN 1 AND 512
             OR instr(CAST(NEW.key AS BLOB), x'00')
        THEN RAISE(ABORT, 'lars_schedule: key must be a text of 1 to 512 bytes without NUL')
        WHEN typeof(coalesce(NEW.payload_version, 1)) <> 'integer'
             OR NEW.payload_version NOT BETWEEN 0 AND 65535
        THEN RAISE(ABORT, 'lars_schedule: payload_version must be from 0 to 65535')
        WHEN typeof(coalesce(NEW.remember, 0)) NOT IN ('integer', 'real') OR NEW.remember < 0
        THEN RAISE(ABORT, 'lars_schedule: remember must be a number of seconds')
        WHEN NEW.remember > 0 AND NEW.key IS NULL
        THEN RAISE(ABORT, 'lars_schedule: remember needs a key')
        WHEN coalesce(NEW.on_conflict, 'keep') NOT IN ('keep', 'replace', 'fail')
        THEN RAISE(ABORT, 'lars_schedule: on_conflict must be keep, replace or fail')
        WHEN NEW.fixed_delay IS NOT NULL AND NEW.fixed_rate IS NOT NULL
        THEN RAISE(ABORT, 'lars_schedule: fixed_delay and fixed_rate exclude each other')
        WHEN typeof(coalesce(NEW.fixed_delay, NEW.fixed_rate, 1)) NOT IN ('integer', 'real')
             OR coalesce(NEW.fixed_delay, NEW.fixed_rate) < 0.000001
        THEN RAISE(ABORT, 'lars_schedule: the period must be at least a microsecond, in seconds')
        WHEN coalesce(NEW.missed, 'burst') NOT IN ('burst', 'skip', 'delay')
        THEN RAISE(ABORT, 'lars_schedule: missed must be burst, skip or delay')
        WHEN NEW.missed IS NOT NULL AND NEW.fixed_rate IS NULL
        THEN RAISE(ABORT, 'lars_schedule: missed needs fixed_rate')
        WHEN NEW.on_conflict = 'fail' AND EXISTS (
             SELECT 1 FROM lars_meta m JOIN lars_timer t ON t.grp = m.grp AND t.key = NEW.key)
        THEN RAISE(ABORT, 'lars_schedule: a timer with this key exists')
        WHEN NEW.on_conflict = 'fail' AND EXISTS (
             SELECT 1 FROM lars_meta m JOIN lars_used_key u ON u.grp = m.grp AND u.key = NEW.key
              WHERE u.until > (julianday('now') - 2440587.5) * 86400000000)
        THEN RAISE(ABORT, 'lars_schedule: the key of the timer is remembered')
        -- The other rows of the statement go on.
        WHEN coalesce(NEW.on_conflict, 'keep') = 'keep' AND (EXISTS (
             SELECT 1 FROM lars_meta m JOIN lars_timer t ON t.grp = m.grp AND t.key = NEW.key)
             OR EXISTS (
             SELECT 1 FROM lars_meta m JOIN lars_used_key u ON u.grp = m.grp AND u.key = NEW.key
              WHERE u.until > (julianday('now') - 2440587.5) * 86400000000))
        THEN RAISE(IGNORE)
    END;
    DELETE FROM lars_timer WHERE grp = (SELECT grp FROM lars_meta) AND key = NEW.key;
    -- 'now' is cut off to the millisecond, and may be one earlier than it is. 292,000 years are never.
    INSERT INTO lars_timer (id, grp, bucket, due_at, deadline, planned_at, key, handler,
                            payload_version, payload, repeat, remember)
    SELECT next_id, grp, 0, due, due, due, NEW.key, NEW.handler, coalesce(NEW.payload_version, 1),
           NEW.payload,
           CASE WHEN NEW.fixed_delay IS NOT NULL THEN json_object(
                     'kind', 'fixed_delay', 'delay', CAST(round(NEW.fixed_delay * 1e6) AS INTEGER))
                WHEN NEW.fixed_rate IS NOT NULL THEN json_object(
                     'kind', 'fixed_rate', 'every', CAST(round(NEW.fixed_rate * 1e6) AS INTEGER),
                     'missed', coalesce(NEW.missed, 'burst'))
           END,
           CAST(round(coalesce(NEW.remember, 0) * 1e6) AS INTEGER)
      FROM (SELECT next_id, grp, CASE
                   WHEN NEW.delay >= 9.2e12 THEN 9223372036854775807
                   ELSE CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000
                        + 1001 + CAST(round(max(NEW.delay, 0) * 1e6) AS INTEGER)
                   END AS due
              FROM lars_meta);
    UPDATE lars_meta SET next_id = next_id + 1;
END;
CREATE TRIGGER lars_schedule_delete INSTEAD OF DELETE ON lars_schedule
BEGIN
    DELETE FROM lars_timer WHERE id = OLD.id AND fence IS NULL;
    UPDATE lars_timer SET repeat = NULL WHERE id = OLD.id;
END;
COMMIT;
