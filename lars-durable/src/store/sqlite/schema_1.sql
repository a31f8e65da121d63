-- Times are microseconds since 1970; 9223372036854775807 is "never". All names begin with lars_, so that the
-- tables can live beside others.

CREATE TABLE lars_meta (
    version INTEGER NOT NULL,           -- of the schema
    epoch   INTEGER NOT NULL,           -- + 1 each time the file is opened
    next_id INTEGER NOT NULL,           -- identities below it are taken
    last_batch INTEGER                  -- token of the last batch of calls, to know it again
) STRICT;
INSERT INTO lars_meta VALUES (1, 0, 1, NULL);

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
    last_error      TEXT
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
    reason          TEXT    NOT NULL,
    parked_at       INTEGER NOT NULL
) STRICT;

CREATE TABLE lars_used_key (
    grp   TEXT    NOT NULL,
    key   TEXT    NOT NULL,
    until INTEGER NOT NULL,
    PRIMARY KEY (grp, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE lars_paused (
    grp     TEXT NOT NULL,
    handler TEXT NOT NULL,
    PRIMARY KEY (grp, handler)
) STRICT, WITHOUT ROWID;

-- For the shell: `SELECT * FROM lars_overview LIMIT 20`.
CREATE VIEW lars_overview AS
SELECT id, grp, handler, key, attempt, deaths, fence IS NOT NULL AS started, repeat,
       CASE deadline WHEN 9223372036854775807 THEN 'never'
            ELSE strftime('%Y-%m-%d %H:%M:%f', deadline / 1e6, 'unixepoch') END AS deadline_utc,
       last_error
  FROM lars_timer
 ORDER BY due_at;
