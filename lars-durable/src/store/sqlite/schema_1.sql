-- Times are microseconds since 1970; 9223372036854775807 is "never". All names begin with lars_, so that the
-- tables can live beside others.

CREATE TABLE lars_meta (
    version INTEGER NOT NULL,           -- of the schema
    epoch   INTEGER NOT NULL,           -- + 1 each time the file is opened
    next_id INTEGER NOT NULL,           -- identities below it are taken
    last_batch INTEGER,                 -- token of the last batch of calls, to know it again
    store   BLOB    NOT NULL            -- of the file, and of no other
) STRICT;
INSERT INTO lars_meta VALUES (1, 0, 1, NULL, randomblob(16));

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
    origin          INTEGER             -- of a run that was parked: the series that went on
) STRICT;
CREATE INDEX lars_timer_due ON lars_timer (grp, bucket, due_at, id);
CREATE UNIQUE INDEX lars_timer_key ON lars_timer (grp, key) WHERE key IS NOT NULL;

-- Given up, and kept for people.
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
CREATE INDEX lars_parked_group ON lars_parked (grp, id);

CREATE TABLE lars_used_key (
    grp   TEXT    NOT NULL,
    key   TEXT    NOT NULL,
    until INTEGER NOT NULL,
    PRIMARY KEY (grp, key)
) STRICT, WITHOUT ROWID;
-- Each sweep looks for what may be forgotten, however many are remembered.
CREATE INDEX lars_used_key_until ON lars_used_key (grp, until);

CREATE TABLE lars_paused (
    grp     TEXT NOT NULL,
    handler TEXT NOT NULL,
    PRIMARY KEY (grp, handler)
) STRICT, WITHOUT ROWID;

-- For the shell: the next 1,000 timers of each group. They read no more than that, however many
-- there are: the groups are found by jumps through the index.
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

-- The same timers by handler. With 1,000 of a group, there may be more.
CREATE VIEW lars_by_handler AS
SELECT grp, handler, sum(NOT started) AS pending, sum(started) AS running,
       sum(NOT started AND attempt > 0) AS retrying, min(deadline_utc) AS next_utc
  FROM lars_overview
 GROUP BY grp, handler;
