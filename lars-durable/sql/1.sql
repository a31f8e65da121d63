-- Version 1 of the schema. A node runs this itself if its role may; see roles.sql if it may not.
-- `psql -1 -v ON_ERROR_STOP=1 -f 1.sql` does the same by hand.

CREATE SCHEMA IF NOT EXISTS lars;

-- The clock that decides what is due.
CREATE FUNCTION lars.clock() RETURNS timestamptz LANGUAGE sql VOLATILE
    AS 'SELECT pg_catalog.clock_timestamp()';

-- Identities. Whoever draws a number owns it and the 1,023 after it; that takes no lock, whoever else
-- draws, and whatever becomes of his transaction.
CREATE SEQUENCE lars.timer_id INCREMENT BY 1024;

CREATE TABLE lars.meta (
    single  boolean  PRIMARY KEY DEFAULT true CHECK (single),
    version int      NOT NULL,      -- of the schema
    buckets smallint NOT NULL,      -- of each group; never changes
    store   uuid     NOT NULL       -- of this database, and of no other
);
INSERT INTO lars.meta (version, buckets, store) VALUES (1, 64, pg_catalog.gen_random_uuid());

-- The nodes that live, each for one life.
CREATE TABLE lars.node (
    id         uuid        PRIMARY KEY,
    grp        text        NOT NULL,
    serves     boolean     NOT NULL,    -- it has handlers
    lease      bigint      NOT NULL,    -- microseconds: after so long without a renewal it is dead
    ahead      bigint      NOT NULL,    -- microseconds: it is told of what is due sooner than that
    renewals   bigint      NOT NULL DEFAULT 0,
    started_at timestamptz NOT NULL,
    renewed_at timestamptz NOT NULL,    -- for people
    report     text                     -- JSON: what the node says of itself
) WITH (fillfactor = 50);

CREATE TABLE lars.bucket (
    grp    text     NOT NULL,
    bucket smallint NOT NULL,
    owner  uuid,
    epoch  int      NOT NULL DEFAULT 0, -- + 1 at every change of owner
    PRIMARY KEY (grp, bucket)
) WITH (fillfactor = 50);

CREATE TABLE lars.timer (
    id              bigint      PRIMARY KEY,
    grp             text        NOT NULL,
    bucket          smallint    NOT NULL,
    due_at          timestamptz NOT NULL,   -- when it is looked at: indexed, <= deadline
    deadline        timestamptz NOT NULL,   -- when it may run: pushing it out changes no index
    planned_at      timestamptz NOT NULL,   -- what the run is for: stays while it is tried again
    key             text COLLATE "POSIX",   -- ordered by bytes, so that a prefix is a range
    handler         text        NOT NULL,
    payload_version int         NOT NULL,
    payload         text        NOT NULL,   -- JSON
    repeat          text,                   -- JSON: the rule of a series
    remember        bigint      NOT NULL DEFAULT 0, -- the key stays taken so long, in microseconds
    attempt         int         NOT NULL DEFAULT 0,
    deaths          int         NOT NULL DEFAULT 0,
    fence           bigint,                 -- NULL: not started; else the token of the run
    epoch           int         NOT NULL DEFAULT 0, -- of the last start: an older owner starts no more
    last_error      text,
    run             bigint      NOT NULL DEFAULT 0, -- how many runs of a series are over
    origin          bigint,                 -- of a run that was parked: the series that went on
    unknown_since   timestamptz             -- when it was first put off because nobody could run it
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);
-- A plan may be made while the table is empty, and has to be right when it is full. So each index
-- fits one kind of condition: this one only those with its collation, the next one only keys.
CREATE INDEX timer_due ON lars.timer (grp COLLATE "POSIX", bucket, due_at, id);
CREATE UNIQUE INDEX timer_key ON lars.timer (key, grp) WHERE key IS NOT NULL;

-- Given up, and kept for people.
CREATE TABLE lars.parked (
    id              bigint      PRIMARY KEY,
    grp             text        NOT NULL,
    bucket          smallint    NOT NULL,
    deadline        timestamptz NOT NULL,
    planned_at      timestamptz NOT NULL,
    key             text,
    handler         text        NOT NULL,
    payload_version int         NOT NULL,
    payload         text        NOT NULL,
    repeat          text,
    remember        bigint      NOT NULL,
    attempt         int         NOT NULL,
    deaths          int         NOT NULL,
    last_error      text,
    run             bigint      NOT NULL,
    origin          bigint,
    reason          text        NOT NULL,
    parked_at       timestamptz NOT NULL
);
CREATE INDEX parked_group ON lars.parked (grp COLLATE "POSIX", id);

-- Keys that are remembered after the run.
CREATE TABLE lars.used_key (
    grp   text        NOT NULL,
    key   text        NOT NULL,
    until timestamptz NOT NULL,
    PRIMARY KEY (key, grp)
);
CREATE INDEX used_key_until ON lars.used_key (grp COLLATE "POSIX", until);

-- Handlers that start nothing.
CREATE TABLE lars.paused (
    grp     text NOT NULL,
    handler text NOT NULL,
    PRIMARY KEY (grp, handler)
);

-- The last batches of calls of each writer, so that one whose answer was lost is not done twice. Each
-- has a row of its own: the versions of one row would be read one by one, as long as an old snapshot
-- keeps them.
CREATE TABLE lars.batch (
    writer uuid        NOT NULL,
    token  bigint      NOT NULL,
    at     timestamptz NOT NULL,
    PRIMARY KEY (writer, token)
);

-- Which history this server went through: the timeline of its log, or 0 where that cannot be asked.
-- It changes when a standby takes over, which may not have received the last commits.
CREATE FUNCTION lars.history() RETURNS bigint LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint;
EXCEPTION WHEN OTHERS THEN
    RETURN 0;
END $$;

-- Where the nodes of a group listen.
CREATE FUNCTION lars.channel(grp text) RETURNS text LANGUAGE sql IMMUTABLE
    AS $$ SELECT 'lars_' || pg_catalog.md5(grp) $$;

-- The first node of a group makes its buckets, and so does a timer for a group that is to come.
CREATE FUNCTION lars.make_buckets(grp text) RETURNS void LANGUAGE sql AS $$
    INSERT INTO lars.bucket (grp, bucket)
    SELECT $1, place FROM lars.meta, pg_catalog.generate_series(0, buckets - 1) AS place
        ON CONFLICT (grp, bucket) DO NOTHING
$$;

-- Refuses a group that no node has ever joined: most probably its name is mistyped.
CREATE FUNCTION lars.check_group(grp text) RETURNS void LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    IF NOT EXISTS (SELECT FROM lars.bucket b WHERE b.grp = check_group.grp) THEN
        RAISE undefined_object USING MESSAGE = format(
            'no node has joined the group %L yet; those that were joined are: %s', check_group.grp,
            (SELECT coalesce(string_agg(quote_literal(known), ', '), 'none') FROM (
                    SELECT DISTINCT b.grp AS known FROM lars.bucket b ORDER BY 1 LIMIT 20) AS all_known)),
            HINT = 'lars.schedule(..., new_group => true) makes a timer for a group that is to come';
    END IF;
END $$;

-- Makes a timer in the caller's transaction. Returns its identity.
--
-- The delay counts from this call; an interval of days follows the time zone of the session. With
-- `fixed_delay` the timer runs again so long after the end of each run; with `fixed_rate` so long
-- after what each run was planned for, and `missed` ('burst', 'skip' or 'delay') says what becomes
-- of runs whose time has passed. In these two a month has 30 days. If a timer has the key,
-- `on_conflict` says what happens: 'keep' changes nothing and returns the identity of that timer,
-- or NULL if the key is only remembered; 'replace' takes its place; 'fail' raises unique_violation.
-- The payload is text, json or jsonb.
CREATE FUNCTION lars.schedule(
    grp text, handler text, payload anycompatible, delay interval,
    key text DEFAULT NULL, payload_version int DEFAULT 1, remember interval DEFAULT NULL,
    on_conflict text DEFAULT 'keep',
    fixed_delay interval DEFAULT NULL, fixed_rate interval DEFAULT NULL, missed text DEFAULT 'burst',
    new_group boolean DEFAULT false
) RETURNS bigint LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    now_is timestamptz := lars.clock();
    due    timestamptz := now_is + schedule.delay;
    body   text := schedule.payload::text;
    number bigint;
    other  bigint;
    keep   bigint := coalesce(extract(epoch FROM schedule.remember) * 1000000, 0);
    period bigint := extract(epoch FROM coalesce(schedule.fixed_delay, schedule.fixed_rate)) * 1000000;
    series text;
    place  smallint;
BEGIN
    IF schedule.grp IS NULL OR schedule.handler IS NULL OR body IS NULL OR due IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'grp, handler, payload and delay must not be NULL';
    END IF;
    IF schedule.new_group IS NOT TRUE THEN
        PERFORM lars.check_group(schedule.grp);
    ELSIF schedule.grp = '' OR octet_length(schedule.grp) > 64 THEN
        RAISE program_limit_exceeded USING MESSAGE = format(
            'the group has %s bytes, but from 1 to 64 are allowed', octet_length(schedule.grp));
    ELSE
        PERFORM lars.make_buckets(schedule.grp);
    END IF;
    PERFORM body::json;
    IF octet_length(body) > 65536 THEN
        RAISE program_limit_exceeded USING MESSAGE = format(
            'the payload has %s bytes of JSON, but at most 65536 are allowed', octet_length(body));
    END IF;
    IF schedule.key = '' OR octet_length(schedule.key) > 512 THEN
        RAISE program_limit_exceeded USING MESSAGE = format(
            'the key has %s bytes, but from 1 to 512 are allowed', octet_length(schedule.key));
    END IF;
    IF schedule.payload_version NOT BETWEEN 0 AND 65535 THEN
        RAISE program_limit_exceeded USING MESSAGE = format(
            'the payload version is %s, but it must be from 0 to 65535', schedule.payload_version);
    END IF;
    IF keep > 0 AND schedule.key IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'remember needs a key';
    END IF;
    IF schedule.on_conflict NOT IN ('keep', 'replace', 'fail') IS NOT FALSE THEN
        RAISE invalid_parameter_value USING MESSAGE = format(
            'on_conflict is %L, but it must be keep, replace or fail', schedule.on_conflict);
    END IF;
    IF schedule.missed NOT IN ('burst', 'skip', 'delay') IS NOT FALSE THEN
        RAISE invalid_parameter_value USING MESSAGE = format(
            'missed is %L, but it must be burst, skip or delay', schedule.missed);
    END IF;
    IF schedule.fixed_delay IS NOT NULL AND schedule.fixed_rate IS NOT NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = 'fixed_delay and fixed_rate exclude each other';
    END IF;
    IF period < 1 THEN
        RAISE invalid_parameter_value USING MESSAGE = format(
            'the period is %s, but it must be at least 1 microsecond',
            coalesce(schedule.fixed_delay, schedule.fixed_rate));
    END IF;
    IF schedule.fixed_delay IS NOT NULL THEN
        series := jsonb_build_object('kind', 'fixed_delay', 'delay', period);
    ELSIF schedule.fixed_rate IS NOT NULL THEN
        series := jsonb_build_object('kind', 'fixed_rate', 'every', period, 'missed', schedule.missed);
    END IF;
    IF schedule.key IS NOT NULL AND schedule.on_conflict <> 'replace' AND EXISTS (
        SELECT FROM lars.used_key u
         WHERE u.grp = schedule.grp AND u.key = schedule.key AND u.until > now_is) THEN
        IF schedule.on_conflict = 'keep' THEN
            RETURN NULL;
        END IF;
        RAISE unique_violation USING MESSAGE = 'the key of the timer is remembered';
    END IF;
    number := nextval('lars.timer_id');
    SELECT (abs(hashtextextended(coalesce(schedule.key, number::text), 0) % m.buckets))::smallint
      INTO place FROM lars.meta m;
    LOOP
        IF schedule.on_conflict = 'replace' THEN
            DELETE FROM lars.timer t WHERE t.grp = schedule.grp AND t.key = schedule.key;
        END IF;
        INSERT INTO lars.timer (id, grp, bucket, due_at, deadline, planned_at, key, handler,
                                payload_version, payload, repeat, remember)
        VALUES (number, schedule.grp, place, due, due, due, schedule.key, schedule.handler,
                schedule.payload_version, body, series, keep)
        ON CONFLICT (grp, key) WHERE key IS NOT NULL DO NOTHING;
        EXIT WHEN FOUND;
        SELECT t.id INTO other FROM lars.timer t
         WHERE t.grp = schedule.grp AND t.key = schedule.key;
        IF FOUND AND schedule.on_conflict = 'keep' THEN
            RETURN other;
        ELSIF FOUND AND schedule.on_conflict = 'fail' THEN
            RAISE unique_violation USING MESSAGE = 'a timer with this key exists';
        END IF;
    END LOOP;
    -- Its owner may have loaded beyond it.
    IF due < now_is + (SELECT max(n.ahead) * interval '1 microsecond' FROM lars.node n
                        WHERE n.grp = schedule.grp) THEN
        PERFORM pg_notify(lars.channel(schedule.grp), place || ':' || number);
    END IF;
    RETURN number;
END $$;

-- Prevents the run of the timer with this key, in the caller's transaction: 'prevented' exactly when
-- no run starts any more, once that transaction has committed; 'running' if one has started, which
-- is then the last of a series; else 'not found'.
CREATE FUNCTION lars.cancel(grp text, key text) RETURNS text LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM lars.check_group(cancel.grp);
    DELETE FROM lars.timer t WHERE t.grp = cancel.grp AND t.key = cancel.key AND t.fence IS NULL;
    IF FOUND THEN
        RETURN 'prevented';
    END IF;
    UPDATE lars.timer t SET repeat = NULL WHERE t.grp = cancel.grp AND t.key = cancel.key;
    IF FOUND THEN
        RETURN 'running';
    END IF;
    RETURN 'not found';
END $$;

-- Says that the database was restored from a backup, or is a copy that lives on beside its original.
-- While no node runs, as the owner: `SELECT lars.restored()`. Runs then have idempotency keys that no
-- run had before, and greater fences, and new timers have identities that none had before.
CREATE FUNCTION lars.restored() RETURNS void LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    greatest_epoch int := (SELECT max(b.epoch) FROM lars.bucket b);
    -- Since 2020.
    seconds int := least(2147483647 - 2 * 1048576,
                         greatest(0, extract(epoch FROM lars.clock()) - 1577836800));
BEGIN
    -- Of 32 bits, so that a fence stays positive; as many are left for changes of owner.
    IF greatest_epoch > 2147483647 - 2 * 1048576 THEN
        RAISE program_limit_exceeded USING MESSAGE = format(
            'the database was restored too often: a bucket has the epoch %s, but at most %s are allowed',
            greatest_epoch, 2147483647 - 2 * 1048576);
    END IF;
    UPDATE lars.meta SET store = gen_random_uuid();
    DELETE FROM lars.node;
    -- More changes of owner, and more identities, than there were since the backup. One backup may be
    -- restored again and again, so what is reached grows with the time.
    UPDATE lars.bucket SET owner = NULL, epoch = greatest(epoch, seconds) + 1048576;
    PERFORM setval('lars.timer_id',
                   greatest(nextval('lars.timer_id'), seconds::bigint << 20) + 1099511627776);
END $$;

-- For psql: `SELECT * FROM lars.overview LIMIT 20`. The next 100 timers of each bucket: the views
-- read no more, however many there are.
CREATE VIEW lars.overview AS
SELECT t.*
  FROM lars.bucket b CROSS JOIN LATERAL (
       SELECT id, grp, handler, key, attempt, deaths, fence IS NOT NULL AS started, repeat,
              deadline, last_error
         FROM lars.timer
        WHERE timer.grp = b.grp COLLATE "POSIX" AND timer.bucket = b.bucket
        ORDER BY due_at, id LIMIT 100) t
 ORDER BY t.deadline;

-- The next 1,000 timers of each bucket, counted by handler. "more": a bucket has more than that.
CREATE VIEW lars.by_handler AS
SELECT grp, handler,
       count(*) FILTER (WHERE fence IS NULL) AS pending,
       count(*) FILTER (WHERE fence IS NULL AND deadline <= now) AS overdue,
       count(*) FILTER (WHERE fence IS NULL AND attempt > 0) AS retrying,
       count(*) FILTER (WHERE fence IS NOT NULL) AS running,
       min(deadline) FILTER (WHERE fence IS NULL) AS next_due,
       bool_or(place = 1000) AS more
  FROM (SELECT lars.clock() AS now OFFSET 0) AS clock CROSS JOIN lars.bucket b CROSS JOIN LATERAL (
       SELECT handler, deadline, attempt, fence, row_number() OVER (ORDER BY due_at, id) AS place
         FROM lars.timer t
        WHERE t.grp = b.grp COLLATE "POSIX" AND t.bucket = b.bucket
        ORDER BY due_at, id LIMIT 1000) AS first
 GROUP BY grp, handler;

-- Dead rows of the timers' table, and the transaction that keeps VACUUM from removing them.
CREATE VIEW lars.health AS
SELECT greatest(c.reltuples, 0)::bigint AS rows, pg_stat_get_dead_tuples(c.oid) AS dead_rows,
       greatest(pg_stat_get_last_vacuum_time(c.oid), pg_stat_get_last_autovacuum_time(c.oid))
           AS vacuumed_at,
       a.pid AS oldest_pid, clock_timestamp() - a.xact_start AS oldest_age, a.state AS oldest_state,
       a.application_name AS oldest_application
  FROM pg_class c LEFT JOIN (
       SELECT pid, xact_start, state, application_name FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()
          AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
          AND xact_start IS NOT NULL AND backend_type <> 'autovacuum worker'
        ORDER BY xact_start LIMIT 1) AS a ON true
 WHERE c.oid = 'lars.timer'::regclass;

-- Who owns how much.
CREATE VIEW lars.owners AS
SELECT b.grp, b.owner, n.started_at, n.renewals, count(*) AS buckets, n.id IS NOT NULL AS lives
  FROM lars.bucket b LEFT JOIN lars.node n ON n.id = b.owner
 GROUP BY b.grp, b.owner, n.id;
