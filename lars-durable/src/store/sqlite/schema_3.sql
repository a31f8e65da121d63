-- Version 3: runs hear of cancels, parked timers may be pruned, timers have tags, and runs that are
-- over may be remembered.

-- While it ran: the run may hear of it.
ALTER TABLE lars_timer ADD COLUMN cancelled INTEGER NOT NULL DEFAULT 0;

-- What it has in common with others. Those without a tag are not in the index.
ALTER TABLE lars_timer ADD COLUMN tag TEXT;
ALTER TABLE lars_parked ADD COLUMN tag TEXT;
CREATE INDEX lars_timer_tag ON lars_timer (grp, tag, due_at, id) WHERE tag IS NOT NULL;

-- Those that were parked first are the first to go.
CREATE INDEX lars_parked_since ON lars_parked (grp, parked_at, id);

-- Runs that are over, if a node remembers them.
CREATE TABLE lars_run (
    timer      INTEGER NOT NULL,
    fence      INTEGER NOT NULL,    -- of the run: later ones of the timer have greater ones
    grp        TEXT    NOT NULL,
    key        TEXT,
    handler    TEXT    NOT NULL,
    node       TEXT    NOT NULL,
    run        INTEGER NOT NULL,    -- how many runs of the series were over before
    attempt    INTEGER NOT NULL,
    planned_at INTEGER NOT NULL,
    began_at   INTEGER NOT NULL,
    ended_at   INTEGER NOT NULL,
    outcome    TEXT    NOT NULL,    -- done, retried, parked, put off, lost
    error      TEXT,
    PRIMARY KEY (timer, fence)
) STRICT, WITHOUT ROWID;
CREATE INDEX lars_run_ended ON lars_run (grp, ended_at, timer, fence);

DROP VIEW lars_schedule;

-- The timers of the group whose node opened the file last: to make, to move and to cancel some in any
-- transaction of any program, with SQLite 3.37 or newer.
--
-- INSERT makes a timer. `delay` is in seconds from the statement. `payload_version` is 1 unless it
-- is given. If another timer has the key, or it is remembered, `on_conflict` says what happens:
-- 'keep' (unless it is given) changes nothing, 'replace' takes its place, 'fail' fails. The key stays
-- taken for `remember` seconds after the last run. With `fixed_delay` the timer runs again so many
-- seconds after the end of each run; with `fixed_rate` so many after what each run was planned for,
-- and `missed` ('burst' unless it is given, 'skip' or 'delay') says what becomes of runs whose time
-- has passed. Such a series ends after `times` runs, and before the first run that is planned for later
-- than `until`, in seconds since 1970; if that is the first one, nothing is made. `tag` is what the
-- timer has in common with others. `id` and `started` are only shown.
--
-- UPDATE of `delay` moves what has not started: of a series, its next run.
--
-- DELETE cancels: what has not started does not run. What runs hears of it, and of a series that is
-- the last run.
CREATE VIEW lars_schedule (handler, payload, delay, key, payload_version, remember, on_conflict,
                           fixed_delay, fixed_rate, missed, id, started, until, times, tag) AS
SELECT handler, payload, deadline / 1e6 - (julianday('now') - 2440587.5) * 86400, key,
       payload_version, remember / 1e6, NULL, json_extract(rule, '$.delay') / 1e6,
       json_extract(rule, '$.every') / 1e6, json_extract(rule, '$.missed'), id, started,
       json_extract(repeat, '$.end.until') / 1e6, json_extract(repeat, '$.end.times'), tag
  FROM (SELECT *, fence IS NOT NULL AS started, coalesce(json_extract(repeat, '$.of'), repeat) AS rule
          FROM lars_timer WHERE grp = (SELECT grp FROM lars_meta));

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
        WHEN typeof(NEW.tag) NOT IN ('text', 'null')
             OR length(CAST(NEW.tag AS BLOB)) NOT BETWEEN 1 AND 128
             OR instr(CAST(NEW.tag AS BLOB), x'00')
        THEN RAISE(ABORT, 'lars_schedule: tag must be a text of 1 to 128 bytes without NUL')
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
        WHEN typeof(coalesce(NEW.until, 0)) NOT IN ('integer', 'real')
        THEN RAISE(ABORT, 'lars_schedule: until must be a number of seconds since 1970')
        WHEN typeof(coalesce(NEW.times, 1)) <> 'integer' OR NEW.times < 1
        THEN RAISE(ABORT, 'lars_schedule: times must be at least 1')
        WHEN coalesce(NEW.until, NEW.times) IS NOT NULL
             AND coalesce(NEW.fixed_delay, NEW.fixed_rate) IS NULL
        THEN RAISE(ABORT, 'lars_schedule: until and times need fixed_delay or fixed_rate')
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
                            payload_version, payload, repeat, remember, tag)
    SELECT next_id, grp, 0, due, due, due, NEW.key, NEW.handler, coalesce(NEW.payload_version, 1),
           NEW.payload,
           CASE WHEN last IS NULL AND NEW.times IS NULL THEN rule
                ELSE json_object('kind', 'ending', 'of', json(rule),
                                 'end', json_object('until', last, 'times', NEW.times))
           END,
           CAST(round(coalesce(NEW.remember, 0) * 1e6) AS INTEGER), NEW.tag
      FROM (SELECT next_id, grp, CASE
                   WHEN NEW.delay >= 9.2e12 THEN 9223372036854775807
                   ELSE CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000
                        + 1001 + CAST(round(max(NEW.delay, 0) * 1e6) AS INTEGER)
                   END AS due,
                   CASE WHEN NEW.until >= 9.2e12 THEN NULL
                        ELSE CAST(round(NEW.until * 1e6) AS INTEGER)
                   END AS last,
                   CASE WHEN NEW.fixed_delay IS NOT NULL THEN json_object(
                        'kind', 'fixed_delay',
                        'delay', CAST(round(NEW.fixed_delay * 1e6) AS INTEGER))
                   WHEN NEW.fixed_rate IS NOT NULL THEN json_object(
                        'kind', 'fixed_rate',
                        'every', CAST(round(NEW.fixed_rate * 1e6) AS INTEGER),
                        'missed', coalesce(NEW.missed, 'burst'))
                   END AS rule
              FROM lars_meta)
     WHERE last IS NULL OR due <= last;
    UPDATE lars_meta SET next_id = next_id + 1
     WHERE EXISTS (SELECT 1 FROM lars_timer WHERE id = next_id);
END;

CREATE TRIGGER lars_schedule_update INSTEAD OF UPDATE OF delay ON lars_schedule
BEGIN
    SELECT CASE
        WHEN typeof(NEW.delay) NOT IN ('integer', 'real')
        THEN RAISE(ABORT, 'lars_schedule: delay must be a number of seconds')
        WHEN NEW.handler IS NOT OLD.handler OR NEW.payload IS NOT OLD.payload
             OR NEW.key IS NOT OLD.key OR NEW.payload_version IS NOT OLD.payload_version
             OR NEW.remember IS NOT OLD.remember OR NEW.on_conflict IS NOT NULL
             OR NEW.fixed_delay IS NOT OLD.fixed_delay OR NEW.fixed_rate IS NOT OLD.fixed_rate
             OR NEW.missed IS NOT OLD.missed OR NEW.id IS NOT OLD.id
             OR NEW.started IS NOT OLD.started OR NEW.until IS NOT OLD.until
             OR NEW.times IS NOT OLD.times OR NEW.tag IS NOT OLD.tag
        THEN RAISE(ABORT, 'lars_schedule: only delay can be changed')
    END;
    INSERT OR IGNORE INTO lars_moved SELECT id FROM lars_timer WHERE id = OLD.id AND fence IS NULL;
    -- As for what is made.
    UPDATE lars_timer
       SET (due_at, deadline, planned_at) = (
           SELECT min(lars_timer.due_at, due), due, due FROM (SELECT CASE
                  WHEN NEW.delay >= 9.2e12 THEN 9223372036854775807
                  ELSE CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000
                       + 1001 + CAST(round(max(NEW.delay, 0) * 1e6) AS INTEGER)
                  END AS due))
     WHERE id = OLD.id AND fence IS NULL;
    UPDATE lars_meta SET next_id = next_id + 1;
END;

CREATE TRIGGER lars_schedule_delete INSTEAD OF DELETE ON lars_schedule
BEGIN
    DELETE FROM lars_timer WHERE id = OLD.id AND fence IS NULL;
    UPDATE lars_timer SET repeat = NULL, cancelled = 1 WHERE id = OLD.id;
END;
