-- Version 3 of the schema: runs hear of cancels, parked timers may be pruned, timers are named by
-- their identities, and have tags, and runs that are over may be remembered. A node runs this itself
-- if its role may, and so does `psql -1 -v ON_ERROR_STOP=1 -f 3.sql` by hand.

-- While it ran: the run may hear of it.
ALTER TABLE lars.timer ADD COLUMN cancelled boolean NOT NULL DEFAULT false;

-- What it has in common with others. Those without a tag are not in the index.
ALTER TABLE lars.timer ADD COLUMN tag text;
ALTER TABLE lars.parked ADD COLUMN tag text;
CREATE INDEX timer_tag ON lars.timer (tag, grp, due_at, id) WHERE tag IS NOT NULL;

-- A node of an earlier version, which goes on while others are replaced, parks without the tag. So it
-- is taken from the timer, or from the series whose run is parked. STABLE, because then it sees the
-- timer that the same statement has deleted.
CREATE FUNCTION lars.keep_tag() RETURNS trigger
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW.tag := (SELECT t.tag FROM lars.timer t WHERE t.id IN (NEW.id, NEW.origin)
                 ORDER BY t.id = NEW.id DESC LIMIT 1);
    RETURN NEW;
END $$;
CREATE TRIGGER keep_tag BEFORE INSERT ON lars.parked FOR EACH ROW WHEN (NEW.tag IS NULL)
    EXECUTE FUNCTION lars.keep_tag();

CREATE OR REPLACE VIEW lars.overview AS
SELECT t.*
  FROM lars.bucket b CROSS JOIN LATERAL (
       SELECT id, grp, handler, key, attempt, deaths, fence IS NOT NULL AS started, repeat,
              deadline, last_error, tag
         FROM lars.timer
        WHERE timer.grp = b.grp COLLATE "POSIX" AND timer.bucket = b.bucket
        ORDER BY due_at, id LIMIT 100) t
 ORDER BY t.deadline;

-- Those that were parked first are the first to go. With another collation than `parked_group`, so
-- that no statement may take the one for the other, whatever is known of the table when it is planned.
CREATE INDEX parked_since ON lars.parked (grp COLLATE "C", parked_at, id);

-- Runs that are over, if a node remembers them.
CREATE TABLE lars.run (
    timer      bigint      NOT NULL,
    fence      bigint      NOT NULL,    -- of the run: later ones of the timer have greater ones
    grp        text        NOT NULL,
    key        text,
    handler    text        NOT NULL,
    node       text        NOT NULL,
    run        bigint      NOT NULL,    -- how many runs of the series were over before
    attempt    int         NOT NULL,
    planned_at timestamptz NOT NULL,
    began_at   timestamptz NOT NULL,
    ended_at   timestamptz NOT NULL,
    outcome    text        NOT NULL,    -- done, retried, parked, put off, lost
    error      text,
    PRIMARY KEY (timer, fence)
);
CREATE INDEX run_ended ON lars.run (grp COLLATE "POSIX", ended_at, timer, fence);

-- Its owner is told of a timer if it may have loaded beyond that, or runs it.
CREATE FUNCTION lars.tell_owner(grp text, bucket smallint, id bigint, due timestamptz) RETURNS void
    LANGUAGE sql AS $$
    SELECT pg_catalog.pg_notify(lars.channel($1), $2 || ':' || $3)
     WHERE $4 < lars.clock() + (SELECT pg_catalog.max(n.ahead) * interval '1 microsecond' FROM lars.node n
                                 WHERE n.grp = $1)
$$;

-- Refuses a tag that no timer can have.
CREATE FUNCTION lars.check_tag(tag text) RETURNS void LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF check_tag.tag = '' OR octet_length(check_tag.tag) > 128 THEN
        RAISE program_limit_exceeded USING MESSAGE = format(
            'the tag has %s bytes, but from 1 to 128 are allowed', octet_length(check_tag.tag));
    END IF;
END $$;

-- Whether a key stays taken after its run.
CREATE FUNCTION lars.is_remembered(grp text, key text, now_is timestamptz) RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM lars.used_key u
                    WHERE u.grp = is_remembered.grp AND u.key = is_remembered.key
                      AND u.until > is_remembered.now_is);
END $$;

DROP FUNCTION lars.schedule(text, text, anycompatible, interval, text, int, interval, text, interval,
                            interval, text, boolean, timestamptz, bigint);

-- Makes a timer in the caller's transaction. Returns its identity.
--
-- The delay counts from this call; an interval of days follows the time zone of the session. With
-- `fixed_delay` the timer runs again so long after the end of each run; with `fixed_rate` so long
-- after what each run was planned for, and `missed` ('burst', 'skip' or 'delay') says what becomes
-- of runs whose time has passed. In these two a month has 30 days. Such a series ends after `times`
-- runs, and before the first run that is planned for later than `until`; if that is the first one,
-- nothing is made, and the identity is NULL. If a timer has the key,
-- `on_conflict` says what happens: 'keep' changes nothing and returns the identity of that timer,
-- or NULL if the key is only remembered; 'replace' takes its place; 'fail' raises unique_violation.
-- The payload is text, json or jsonb. `tag` is what the timer has in common with others.
CREATE FUNCTION lars.schedule(
    grp text, handler text, payload anycompatible, delay interval,
    key text DEFAULT NULL, payload_version int DEFAULT 1, remember interval DEFAULT NULL,
    on_conflict text DEFAULT 'keep',
    fixed_delay interval DEFAULT NULL, fixed_rate interval DEFAULT NULL, missed text DEFAULT 'burst',
    new_group boolean DEFAULT false, until timestamptz DEFAULT NULL, times bigint DEFAULT NULL,
    tag text DEFAULT NULL
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
    series jsonb;
    place  smallint;
    other_place smallint;
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
    PERFORM lars.check_tag(schedule.tag);
    IF schedule.payload_version NOT BETWEEN 0 AND 65535 THEN
        RAISE program_limit_exceeded USING MESSAGE = format(
            'the payload version is %s, but it must be from 0 to 65535', schedule.payload_version);
    END IF;
    IF schedule.handler = '' THEN
        RAISE invalid_parameter_value USING MESSAGE = 'handler must not be empty';
    END IF;
    IF keep < 0 THEN
        RAISE invalid_parameter_value USING MESSAGE = format(
            'remember is %s, but it must be at least 0', schedule.remember);
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
    IF schedule.times < 1 THEN
        RAISE invalid_parameter_value USING MESSAGE = format(
            'times is %s, but it must be at least 1', schedule.times);
    END IF;
    IF period IS NULL AND (schedule.until IS NOT NULL OR schedule.times IS NOT NULL) THEN
        RAISE invalid_parameter_value USING MESSAGE = 'until and times need fixed_delay or fixed_rate';
    END IF;
    IF schedule.fixed_delay IS NOT NULL THEN
        series := jsonb_build_object('kind', 'fixed_delay', 'delay', period);
    ELSIF schedule.fixed_rate IS NOT NULL THEN
        series := jsonb_build_object('kind', 'fixed_rate', 'every', period, 'missed', schedule.missed);
    END IF;
    IF isfinite(schedule.until) OR schedule.times IS NOT NULL THEN
        series := jsonb_build_object('kind', 'ending', 'of', series, 'end', jsonb_build_object(
            'until', CASE WHEN isfinite(schedule.until)
                          THEN (extract(epoch FROM schedule.until) * 1000000)::bigint END,
            'times', schedule.times));
    END IF;
    number := nextval('lars.timer_id');
    SELECT (abs(hashtextextended(coalesce(schedule.key, number::text), 0) % m.buckets))::smallint
      INTO place FROM lars.meta m;
    LOOP
        IF schedule.key IS NOT NULL AND schedule.on_conflict <> 'replace'
           AND lars.is_remembered(schedule.grp, schedule.key, now_is) THEN
            IF schedule.on_conflict = 'keep' THEN
                RETURN NULL;
            END IF;
            RAISE unique_violation USING MESSAGE = 'the key of the timer is remembered';
        END IF;
        IF schedule.on_conflict = 'replace' THEN
            DELETE FROM lars.timer t WHERE t.grp = schedule.grp AND t.key = schedule.key
            RETURNING CASE WHEN t.fence IS NOT NULL THEN t.id END, t.bucket INTO other, other_place;
            -- The run that has begun hears of it. That of an actor is in the bucket of its address.
            IF other IS NOT NULL THEN
                PERFORM lars.tell_owner(schedule.grp, other_place, other, '-infinity');
            END IF;
        END IF;
        INSERT INTO lars.timer (id, grp, bucket, due_at, deadline, planned_at, key, handler,
                                payload_version, payload, repeat, remember, tag)
        SELECT number, schedule.grp, place, due, due, due, schedule.key, schedule.handler,
               schedule.payload_version, body, series::text, keep, schedule.tag
         WHERE schedule.until IS NULL OR due <= schedule.until
        ON CONFLICT (grp, key) WHERE key IS NOT NULL DO NOTHING;
        IF FOUND THEN
            EXIT WHEN schedule.key IS NULL OR schedule.on_conflict = 'replace'
                      OR NOT lars.is_remembered(schedule.grp, schedule.key, now_is);
            -- The insert has waited for the end of a run with this key.
            DELETE FROM lars.timer t WHERE t.id = number;
            CONTINUE;
        END IF;
        SELECT t.id INTO other FROM lars.timer t
         WHERE t.grp = schedule.grp AND t.key = schedule.key;
        IF FOUND AND schedule.on_conflict = 'keep' THEN
            RETURN other;
        ELSIF FOUND AND schedule.on_conflict = 'fail' THEN
            RAISE unique_violation USING MESSAGE = 'a timer with this key exists';
        ELSIF due > schedule.until THEN
            RETURN NULL;
        END IF;
    END LOOP;
    PERFORM lars.tell_owner(schedule.grp, place, number, due);
    RETURN number;
END $$;

-- The calls below do in the caller's transaction what those of a node do. Each names a timer by its
-- identity or by its key.

-- The timer that has this key, which is from now on the caller's until his transaction ends. One that
-- is replaced while this waits for it is gone, and the statement has not seen its successor.
CREATE FUNCTION lars.hold(grp text, key text) RETURNS bigint LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    holder bigint;
BEGIN
    LOOP
        SELECT t.id INTO holder FROM lars.timer t
         WHERE t.grp = hold.grp AND t.key = hold.key FOR UPDATE;
        IF FOUND OR NOT EXISTS (SELECT FROM lars.timer t
                                 WHERE t.grp = hold.grp AND t.key = hold.key) THEN
            RETURN holder;
        END IF;
    END LOOP;
END $$;

-- Prevents the run of a timer: 'prevented' exactly when no run starts any more, once the transaction
-- has committed; 'running' if one has started, which hears of it and is the last of a series; else
-- 'not found'.
CREATE FUNCTION lars.cancel(grp text, id bigint) RETURNS text LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    place smallint;
BEGIN
    PERFORM lars.check_group(cancel.grp);
    -- If another transaction is ending the run, the timer has not started once that has committed.
    PERFORM FROM lars.timer t WHERE t.id = cancel.id AND t.grp = cancel.grp FOR UPDATE;
    DELETE FROM lars.timer t WHERE t.id = cancel.id AND t.grp = cancel.grp AND t.fence IS NULL;
    IF FOUND THEN
        RETURN 'prevented';
    END IF;
    UPDATE lars.timer t SET repeat = NULL, cancelled = true
     WHERE t.id = cancel.id AND t.grp = cancel.grp RETURNING t.bucket INTO place;
    IF NOT FOUND THEN
        RETURN 'not found';
    END IF;
    PERFORM lars.tell_owner(cancel.grp, place, cancel.id, '-infinity');
    RETURN 'running';
END $$;

CREATE OR REPLACE FUNCTION lars.cancel(grp text, key text) RETURNS text LANGUAGE sql
    AS $$ SELECT lars.cancel($1, lars.hold($1, $2)) $$;

-- Moves the deadline of a timer to this long from now; of a repeat, that of its next run: 'moved',
-- 'running' if it has started, which changes nothing, or 'not found'.
CREATE FUNCTION lars.reset(grp text, id bigint, delay interval) RETURNS text LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    due   timestamptz := lars.clock() + reset.delay;
    place smallint;
BEGIN
    PERFORM lars.check_group(reset.grp);
    IF due IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'delay must not be NULL';
    END IF;
    UPDATE lars.timer t
       SET deadline = due, planned_at = due, due_at = least(t.due_at, due)
     WHERE t.id = reset.id AND t.grp = reset.grp AND t.fence IS NULL RETURNING t.bucket INTO place;
    IF FOUND THEN
        PERFORM lars.tell_owner(reset.grp, place, reset.id, due);
        RETURN 'moved';
    END IF;
    IF EXISTS (SELECT FROM lars.timer t WHERE t.id = reset.id AND t.grp = reset.grp) THEN
        RETURN 'running';
    END IF;
    RETURN 'not found';
END $$;

CREATE FUNCTION lars.reset(grp text, key text, delay interval) RETURNS text LANGUAGE sql
    AS $$ SELECT lars.reset($1, lars.hold($1, $2), $3) $$;

-- Lets a parked timer run again: 'done'; 'taken' or 'remembered' of its key; or 'not parked'.
CREATE FUNCTION lars.unpark(grp text, id bigint) RETURNS text LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    now_is    timestamptz := lars.clock();
    found_key text;
    place     smallint;
BEGIN
    -- The series that a parked run is of has the key.
    SELECT CASE WHEN p.origin IS NULL THEN p.key END, p.bucket INTO found_key, place
      FROM lars.parked p WHERE p.id = unpark.id AND p.grp = unpark.grp FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'not parked';
    END IF;
    INSERT INTO lars.timer (id, grp, bucket, due_at, deadline, planned_at, key, handler,
                            payload_version, payload, repeat, remember, last_error, run, origin,
                            tag)
    SELECT p.id, p.grp, p.bucket, now_is, now_is, now_is, found_key, p.handler, p.payload_version,
           p.payload, p.repeat, p.remember, p.last_error, p.run, p.origin, p.tag
      FROM lars.parked p WHERE p.id = unpark.id
    ON CONFLICT (grp, key) WHERE key IS NOT NULL DO NOTHING;
    IF NOT FOUND THEN
        RETURN 'taken';
    END IF;
    -- Asked now, because the insert may have waited for the end of a run with this key.
    IF lars.is_remembered(unpark.grp, found_key, now_is) THEN
        DELETE FROM lars.timer t WHERE t.id = unpark.id;
        RETURN 'remembered';
    END IF;
    DELETE FROM lars.parked p WHERE p.id = unpark.id;
    PERFORM lars.tell_owner(unpark.grp, place, unpark.id, now_is);
    RETURN 'done';
END $$;

-- Lets a parked timer run again, now, with a full set of attempts: whether it is parked. Raises
-- unique_violation if another timer has its key by now, or the key is remembered.
CREATE FUNCTION lars.retry_parked(grp text, id bigint) RETURNS boolean LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    did text;
BEGIN
    PERFORM lars.check_group(retry_parked.grp);
    did := lars.unpark(retry_parked.grp, retry_parked.id);
    IF did = 'taken' THEN
        RAISE unique_violation USING MESSAGE = 'a timer with this key exists';
    ELSIF did = 'remembered' THEN
        RAISE unique_violation USING MESSAGE = 'the key of the timer is remembered';
    END IF;
    RETURN did = 'done';
END $$;

-- Deletes a parked timer: whether it was parked.
CREATE FUNCTION lars.discard_parked(grp text, id bigint) RETURNS boolean LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM lars.check_group(discard_parked.grp);
    DELETE FROM lars.parked p WHERE p.id = discard_parked.id AND p.grp = discard_parked.grp;
    RETURN FOUND;
END $$;

-- Refuses a step of more than a thousand.
CREATE FUNCTION lars.check_most(most int) RETURNS void LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF most NOT BETWEEN 1 AND 1000 IS NOT FALSE THEN
        RAISE program_limit_exceeded USING MESSAGE = format(
            'most is %s, but it must be from 1 to 1000', coalesce(most::text, 'NULL'));
    END IF;
END $$;

-- Moves a timer to this long from now, or cancels it if that is NULL: `false` if it runs.
CREATE FUNCTION lars.change(grp text, id bigint, delay interval) RETURNS boolean LANGUAGE sql AS $$
    SELECT CASE WHEN $3 IS NULL THEN lars.cancel($1, $2) = 'prevented'
           ELSE lars.reset($1, $2, $3) = 'moved' END
$$;

CREATE FUNCTION lars.check_delay(delay interval) RETURNS interval LANGUAGE plpgsql IMMUTABLE
    SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF check_delay.delay IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'delay must not be NULL';
    END IF;
    RETURN check_delay.delay;
END $$;

-- Which timers a step is for: what is NULL does not matter. All the rest has to hold.
CREATE TYPE lars.query AS (
    key_prefix  text,
    tag         text,
    handler     text,
    states      text[],
    due_from    timestamptz,
    due_before  timestamptz,
    failed_with text,
    timers      boolean,        -- whether it is for timers that are not parked
    parked      boolean,        -- and whether for those that are
    paused      text[],         -- the handlers that are
    now_is      timestamptz     -- what is due is due at this time
);

-- A scan of the small table of nodes, which no index helps, seems dear where scans are off. So each
-- function here that turns them off does not compile either: it would, once for each timer.

-- Refuses what no timer can meet: of the states, at least one must be among those that fit the call.
CREATE FUNCTION lars.query_of(
    fits text[], grp text, key_prefix text, tag text, handler text, states text[],
    due_from timestamptz, due_before timestamptz, failed_with text
) RETURNS lars.query LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET jit = off AS $$
DECLARE
    known text[] := '{waiting, due, running, retrying, paused, parked}';
    meant text[] := coalesce(query_of.states, query_of.fits);
    word  text;
BEGIN
    IF octet_length(query_of.key_prefix) > 512 THEN
        RAISE program_limit_exceeded USING MESSAGE = format(
            'key_prefix has %s bytes, but at most 512 are allowed', octet_length(query_of.key_prefix));
    END IF;
    PERFORM lars.check_tag(query_of.tag);
    IF array_ndims(query_of.states) > 1 THEN
        RAISE invalid_parameter_value USING MESSAGE = format(
            'states is %L, but it must have one dimension', query_of.states);
    END IF;
    FOREACH word IN ARRAY coalesce(query_of.states, '{}') LOOP
        IF word = ANY (known) IS NOT TRUE THEN
            RAISE invalid_parameter_value USING MESSAGE = format(
                'states has %L, but each must be one of %s', word, array_to_string(known, ', '));
        END IF;
    END LOOP;
    IF NOT meant && query_of.fits THEN
        RAISE invalid_parameter_value USING MESSAGE = format(
            'states is %L, but at least 1 of these is needed: %s', query_of.states,
            array_to_string(query_of.fits, ', '));
    END IF;
    IF query_of.due_from >= query_of.due_before THEN
        RAISE invalid_parameter_value USING MESSAGE = format(
            'due_from is %s, but it must be before due_before, which is %s', query_of.due_from,
            query_of.due_before);
    END IF;
    RETURN (query_of.key_prefix, query_of.tag, query_of.handler, query_of.states, query_of.due_from,
            query_of.due_before, query_of.failed_with,
            array_remove(meant, 'parked') && array_remove(query_of.fits, 'parked'),
            'parked' = ANY (meant) AND 'parked' = ANY (query_of.fits),
            ARRAY(SELECT p.handler FROM lars.paused p WHERE p.grp = query_of.grp), lars.clock());
END $$;

-- Whether a timer is meant; of a parked one, `reason` says why it is. The same rule as that of the
-- nodes. It has no settings of its own, so that it becomes part of the statement that asks.
CREATE FUNCTION lars.is_meant(
    query lars.query, key text, tag text, handler text, started boolean, deadline timestamptz,
    attempt int, last_error text, reason text
) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT (($1).key_prefix IS NULL OR coalesce(pg_catalog.starts_with($2, ($1).key_prefix), false))
       AND (($1).tag IS NULL OR coalesce($3 = ($1).tag, false))
       AND (($1).handler IS NULL OR $4 = ($1).handler)
       AND (($1).states IS NULL OR CASE
            WHEN $9 IS NOT NULL THEN 'parked' = ANY (($1).states)
            WHEN $5 THEN 'running' = ANY (($1).states)
            ELSE CASE WHEN $6 <= ($1).now_is THEN 'due' ELSE 'waiting' END = ANY (($1).states)
                 OR $7 > 0 AND 'retrying' = ANY (($1).states)
                 OR $4 = ANY (($1).paused) AND 'paused' = ANY (($1).states) END)
       -- One that never comes due is before the end of time, so that a range without end has it.
       AND (($1).due_from IS NULL
            OR least($6, timestamptz '294276-12-31 23:59:59.999999+00') >= ($1).due_from)
       AND (($1).due_before IS NULL
            OR least($6, timestamptz '294276-12-31 23:59:59.999999+00') < ($1).due_before)
       AND (($1).failed_with IS NULL
            OR coalesce(pg_catalog.strpos($8, ($1).failed_with) > 0, false)
            OR coalesce(pg_catalog.strpos($9, ($1).failed_with) > 0, false))
$$;

-- The next 5,001 timers from behind `after` on, and where each is: those with a tag by time, those
-- whose keys begin with something by key, and others by bucket and time; then those that are parked.
-- After `most` that are meant, one more place follows, as a sign that there is more.
-- An index has the order of each way, and is read no further: a loop reads a few rows ahead, where
-- RETURN QUERY would read them all. Groups may have the same key, which is one place.
CREATE FUNCTION lars.places(grp text, query lars.query, after text, most int)
    RETURNS TABLE (place text, id bigint, parked boolean, meant boolean) LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_sort = off SET jit = off SET datestyle = 'ISO' SET timezone = 'UTC' AS $$
#variable_conflict use_column
DECLARE
    by_key      boolean := (places.query).tag IS NULL AND (places.query).key_prefix IS NOT NULL;
    -- Each as it is written below. How a backslash is read depends on the session, so there is none.
    after_due   text[] := regexp_match(places.after,
        '^due:([0-9]{1,4}):([0-9]{1,18}):(-?infinity|[0-9]{4,6}-[0-9:. -]{14,22}[+]00( BC)?)$');
    after_key   text := substr(places.after, 5);
    after_parked bigint := (regexp_match(places.after, '^parked:([0-9]{1,18})$'))[1];
    first_place smallint := coalesce(after_due[1]::smallint, 0);
    first_id    bigint := coalesce(after_due[2]::bigint, 0);
    first_due   timestamptz := coalesce(after_due[3]::timestamptz, '-infinity');
    -- It is looked at when it is due, or earlier.
    last_due    timestamptz := coalesce((places.query).due_before, 'infinity');
    room        int := 5001;
    missing     int := places.most;
    last_place  text;
    owned       smallint;
BEGIN
    IF NOT (places.after IS NULL OR after_parked IS NOT NULL AND (places.query).parked
            OR (places.query).timers AND (CASE WHEN by_key THEN starts_with(places.after, 'key:')
                                          ELSE after_due IS NOT NULL END)) THEN
        RAISE invalid_parameter_value USING MESSAGE = format(
            'after is %L, but it must be the next of a step with the same conditions', places.after);
    END IF;
    IF after_parked IS NOT NULL OR NOT (places.query).timers THEN
        -- Only what is parked.
    ELSIF (places.query).tag IS NOT NULL THEN
        FOR place, id, parked, meant IN
        SELECT concat_ws(':', 'due', t.bucket, t.id, t.due_at), t.id, false,
               lars.is_meant(places.query, t.key, t.tag, t.handler, t.fence IS NOT NULL,
                             t.deadline, t.attempt, t.last_error, NULL)
          FROM lars.timer t
         WHERE t.tag = (places.query).tag AND t.grp = places.grp
           AND (t.due_at, t.id) > (first_due, first_id) AND t.due_at <= last_due
         ORDER BY t.due_at, t.id LIMIT room
        LOOP
            RETURN NEXT;
            room := CASE WHEN missing > 0 OR place = last_place THEN room - 1 ELSE 0 END;
            EXIT WHEN room = 0;
            missing := missing - meant::int; last_place := place;
        END LOOP;
    ELSIF by_key THEN
        -- No key has a character below the first one, or so many of the last.
        FOR place, id, parked, meant IN
        SELECT 'key:' || t.key, t.id, false,
               t.grp = places.grp
               AND lars.is_meant(places.query, t.key, t.tag, t.handler, t.fence IS NOT NULL,
                                 t.deadline, t.attempt, t.last_error, NULL)
          FROM (SELECT * FROM lars.timer t
                 WHERE t.key >= greatest(after_key || chr(1),
                                         (places.query).key_prefix COLLATE "POSIX")
                   AND t.key < (places.query).key_prefix || repeat(chr(1114111), 129)
                 ORDER BY t.key, t.grp LIMIT room) AS t
         ORDER BY t.key, t.grp
        LOOP
            RETURN NEXT;
            room := CASE WHEN missing > 0 OR place = last_place THEN room - 1 ELSE 0 END;
            EXIT WHEN room = 0;
            missing := missing - meant::int; last_place := place;
        END LOOP;
    ELSE
        FOR owned IN SELECT b.bucket FROM lars.bucket b
                      WHERE b.grp = places.grp AND b.bucket >= first_place ORDER BY b.bucket
        LOOP
            FOR place, id, parked, meant IN
            SELECT concat_ws(':', 'due', t.bucket, t.id, t.due_at), t.id, false,
                   lars.is_meant(places.query, t.key, t.tag, t.handler, t.fence IS NOT NULL,
                                 t.deadline, t.attempt, t.last_error, NULL)
              FROM lars.timer t
             WHERE t.grp = places.grp COLLATE "POSIX" AND t.bucket = owned
               AND (t.due_at, t.id) > (first_due, first_id) AND t.due_at <= last_due
             ORDER BY t.due_at, t.id LIMIT room
            LOOP
                RETURN NEXT;
                room := CASE WHEN missing > 0 OR place = last_place THEN room - 1 ELSE 0 END;
                EXIT WHEN room = 0;
                missing := missing - meant::int; last_place := place;
            END LOOP;
            EXIT WHEN room = 0;
            first_due := '-infinity'; first_id := 0;
        END LOOP;
    END IF;
    IF (places.query).parked AND room > 0 THEN
        FOR place, id, parked, meant IN
        SELECT 'parked:' || p.id, p.id, true,
               lars.is_meant(places.query, p.key, p.tag, p.handler, false, p.deadline, p.attempt,
                             p.last_error, p.reason)
          FROM lars.parked p
         WHERE p.grp = places.grp COLLATE "POSIX" AND p.id > coalesce(after_parked, 0)
         ORDER BY p.id LIMIT room
        LOOP
            RETURN NEXT;
            EXIT WHEN missing <= 0;
            missing := missing - meant::int;
        END LOOP;
    END IF;
END $$;

-- What a step looks at: some 5,000 timers at most, of which `most` are meant at most. If there is
-- more to look at, the last row has only a place, behind which the next step begins.
CREATE FUNCTION lars.walk(grp text, query lars.query, after text, most int)
    RETURNS TABLE (place text, id bigint, parked boolean, meant boolean) LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    looked_at   int := 0;
    matched     int := 0;
    last_place  text;
    last_meant  boolean;
    next_place  text;
    one         record;
BEGIN
    PERFORM lars.check_group(walk.grp);
    PERFORM lars.check_most(walk.most);
    FOR one IN SELECT p.* FROM lars.places(walk.grp, walk.query, walk.after,
                                               walk.most) AS p LOOP
        IF last_place IS DISTINCT FROM one.place THEN
            IF looked_at >= 5000 OR matched >= walk.most THEN
                next_place := last_place;
                EXIT;
            END IF;
            last_place := one.place;
            last_meant := false;
        END IF;
        looked_at := looked_at + 1;
        matched := matched + one.meant::int;
        last_meant := last_meant OR one.meant;
        place := one.place; id := one.id; parked := one.parked; meant := one.meant;
        RETURN NEXT;
    END LOOP;
    -- So many had the last key that this group's own timer may come behind those of the others.
    IF looked_at > 5000 THEN
        next_place := last_place;
        IF NOT last_meant THEN
            RETURN QUERY
            SELECT last_place, t.id, false, true FROM lars.timer t
             WHERE t.grp = walk.grp AND t.key = substr(last_place, 5)
               AND lars.is_meant(walk.query, t.key, t.tag, t.handler, t.fence IS NOT NULL, t.deadline,
                                 t.attempt, t.last_error, NULL);
        END IF;
    END IF;
    IF next_place IS NOT NULL THEN
        place := next_place; id := NULL; parked := NULL; meant := NULL;
        RETURN NEXT;
    END IF;
END $$;

-- Refuses a query without conditions: a value that is NULL by mistake must not mean all timers.
CREATE FUNCTION lars.check_query(query lars.query) RETURNS void LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF coalesce((query).key_prefix, (query).tag, (query).handler, (query).states::text,
                (query).due_from::text, (query).due_before::text, (query).failed_with) IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'at least 1 condition is needed that is not NULL';
    END IF;
END $$;

-- Moves or cancels a timer if it is meant still: 'changed'; 'running', and so not moved, or
-- cancelled after this run; 'held' by another transaction; or NULL.
CREATE FUNCTION lars.change_meant(query lars.query, grp text, id bigint, delay interval) RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    meant boolean;
BEGIN
    SELECT lars.is_meant(change_meant.query, t.key, t.tag, t.handler, t.fence IS NOT NULL,
                         t.deadline, t.attempt, t.last_error, NULL)
      INTO meant FROM lars.timer t WHERE t.id = change_meant.id FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN (SELECT 'held' FROM lars.timer t WHERE t.id = change_meant.id);
    ELSIF NOT meant THEN
        RETURN NULL;
    ELSIF lars.change(change_meant.grp, change_meant.id, change_meant.delay) THEN
        RETURN 'changed';
    END IF;
    RETURN 'running';
END $$;

-- What lars.cancel_all and lars.reset_all do.
CREATE FUNCTION lars.change_all(
    delay interval, grp text, query lars.query, after text, most int,
    OUT looked_at int, OUT changed int, OUT running int, OUT passed_over int, OUT next text
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    one record;
    did text;
BEGIN
    PERFORM lars.check_query(change_all.query);
    looked_at := 0; changed := 0; running := 0; passed_over := 0;
    FOR one IN SELECT w.* FROM lars.walk(change_all.grp, change_all.query, change_all.after,
                                         change_all.most) AS w
    LOOP
        IF one.id IS NULL THEN
            next := one.place;
            EXIT;
        END IF;
        looked_at := looked_at + 1;
        CONTINUE WHEN NOT one.meant;
        did := lars.change_meant(change_all.query, change_all.grp, one.id, change_all.delay);
        changed := changed + (did IS NOT DISTINCT FROM 'changed')::int;
        running := running + (did IS NOT DISTINCT FROM 'running')::int;
        passed_over := passed_over + (did IS NOT DISTINCT FROM 'held')::int;
    END LOOP;
END $$;

-- The functions below take the conditions of a query. All that are given have to hold: the key
-- begins with `key_prefix`; the tag and the handler are these; the timer is in one of these states
-- ('waiting', 'due', 'running', 'retrying', 'paused', 'parked'); it may run at `due_from` or later,
-- and before `due_before`; its last failure contains this text. A step looks at some 5,000 timers at
-- most, from behind the place `after` on, and finds `most` at most. `next` is the `after` of the next
-- step, and NULL after the last one. Timers of other groups with such keys are looked at, too.
--
-- Timers with a tag are looked at in the order in which they are due, and then not those after
-- `due_before`; else those with a beginning of the key in the order of their keys; else all, in the
-- order of their buckets.

-- How many timers meet the conditions.
CREATE FUNCTION lars.count(
    grp text, key_prefix text DEFAULT NULL, tag text DEFAULT NULL, handler text DEFAULT NULL,
    after text DEFAULT NULL, most int DEFAULT 1000, states text[] DEFAULT NULL,
    due_from timestamptz DEFAULT NULL, due_before timestamptz DEFAULT NULL,
    failed_with text DEFAULT NULL, OUT looked_at int, OUT matched int, OUT next text
) LANGUAGE sql AS $$
    SELECT pg_catalog.count(w.id)::int, (pg_catalog.count(*) FILTER (WHERE w.meant))::int,
           pg_catalog.max(w.place) FILTER (WHERE w.id IS NULL)
      FROM lars.walk($1, lars.query_of('{waiting, due, running, retrying, paused, parked}',
                                       $1, $2, $3, $4, $7, $8, $9, $10), $5, $6) AS w
$$;

-- A timer as lars.list shows it.
CREATE TYPE lars.listed AS (
    place           text,
    id              bigint,
    key             text,
    tag             text,
    handler         text,
    state           text,           -- waiting, due, running, parked
    deadline        timestamptz,
    attempt         int,            -- how many have begun
    payload         text,
    payload_version int,
    last_error      text,
    reason          text            -- why it is parked
);

-- The timers that meet the conditions. If there is more to look at, the last row has only a `place`:
-- the `after` of the next step.
CREATE FUNCTION lars.list(
    grp text, key_prefix text DEFAULT NULL, tag text DEFAULT NULL, handler text DEFAULT NULL,
    after text DEFAULT NULL, most int DEFAULT 1000, states text[] DEFAULT NULL,
    due_from timestamptz DEFAULT NULL, due_before timestamptz DEFAULT NULL,
    failed_with text DEFAULT NULL
) RETURNS SETOF lars.listed LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT w.place, w.id, coalesce(t.key, p.key), coalesce(t.tag, p.tag),
           coalesce(t.handler, p.handler),
           CASE WHEN w.parked THEN 'parked' WHEN t.fence IS NOT NULL THEN 'running'
                WHEN t.deadline <= lars.clock() THEN 'due' WHEN t.id IS NOT NULL THEN 'waiting' END,
           coalesce(t.deadline, p.deadline), coalesce(t.attempt, p.attempt),
           coalesce(t.payload, p.payload), coalesce(t.payload_version, p.payload_version),
           coalesce(t.last_error, p.last_error), p.reason
      FROM (SELECT * FROM lars.walk(list.grp, lars.query_of(
                       '{waiting, due, running, retrying, paused, parked}', list.grp,
                       list.key_prefix, list.tag, list.handler, list.states, list.due_from,
                       list.due_before, list.failed_with), list.after, list.most)
                   WITH ORDINALITY AS them (place, id, parked, meant, number)
             WHERE id IS NULL OR meant) AS w
           LEFT JOIN lars.timer t ON t.id = w.id AND NOT w.parked
           LEFT JOIN lars.parked p ON p.id = w.id AND w.parked
     -- One that has ended meanwhile is left out.
     WHERE w.id IS NULL OR t.id IS NOT NULL OR p.id IS NOT NULL
     ORDER BY w.number;
END $$;

-- Cancels the timers that meet the conditions, of which at least one must be given; not those that
-- are parked. What another transaction holds is passed over.
CREATE FUNCTION lars.cancel_all(
    grp text, key_prefix text DEFAULT NULL, tag text DEFAULT NULL, handler text DEFAULT NULL,
    after text DEFAULT NULL, most int DEFAULT 1000, states text[] DEFAULT NULL,
    due_from timestamptz DEFAULT NULL, due_before timestamptz DEFAULT NULL,
    failed_with text DEFAULT NULL,
    OUT looked_at int, OUT prevented int, OUT running int, OUT passed_over int, OUT next text
) LANGUAGE sql AS $$
    SELECT * FROM lars.change_all(NULL, $1, lars.query_of(
        '{waiting, due, running, retrying, paused}', $1, $2, $3, $4, $7, $8, $9, $10), $5, $6)
$$;

-- Moves them to this long from now, in the same way; of a repeat, that is its next run. What runs is
-- counted, and not changed.
CREATE FUNCTION lars.reset_all(
    grp text, delay interval, key_prefix text DEFAULT NULL, tag text DEFAULT NULL,
    handler text DEFAULT NULL, after text DEFAULT NULL, most int DEFAULT 1000,
    states text[] DEFAULT NULL, due_from timestamptz DEFAULT NULL,
    due_before timestamptz DEFAULT NULL, failed_with text DEFAULT NULL,
    OUT looked_at int, OUT moved int, OUT running int, OUT passed_over int, OUT next text
) LANGUAGE sql AS $$
    SELECT * FROM lars.change_all(lars.check_delay($2), $1, lars.query_of(
        '{waiting, due, retrying, paused}', $1, $3, $4, $5, $8, $9, $10, $11), $6, $7)
$$;

-- What lars.retry_all and lars.discard_all do.
CREATE FUNCTION lars.settle_parked(
    discard boolean, grp text, query lars.query, after text, most int,
    OUT looked_at int, OUT changed int, OUT passed_over int, OUT next text
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    one record;
    still boolean;
    ids bigint[] := '{}';
    keys text[] := '{}';
BEGIN
    PERFORM lars.check_query(settle_parked.query);
    looked_at := 0; changed := 0; passed_over := 0;
    FOR one IN SELECT w.* FROM lars.walk(settle_parked.grp, settle_parked.query,
                                         settle_parked.after, settle_parked.most) AS w
    LOOP
        IF one.id IS NULL THEN
            next := one.place;
            EXIT;
        END IF;
        looked_at := looked_at + 1;
        CONTINUE WHEN NOT one.meant;
        ids := ids || one.id;
        keys := keys || (SELECT p.key FROM lars.parked p WHERE p.id = one.id);
    END LOOP;
    -- Others wait for a timer that is made with their key. Two steps that made timers with the same
    -- keys in different orders would wait for each other, and PostgreSQL would end one of them. So
    -- all make them in the order of the keys, as the nodes do.
    FOR one IN SELECT * FROM unnest(ids, keys) AS found (id, key) ORDER BY key COLLATE "POSIX", id
    LOOP
        SELECT lars.is_meant(settle_parked.query, p.key, p.tag, p.handler, false, p.deadline,
                             p.attempt, p.last_error, p.reason)
          INTO still FROM lars.parked p WHERE p.id = one.id FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            passed_over := passed_over
                + (SELECT count(*) FROM lars.parked p WHERE p.id = one.id)::int;
        ELSIF NOT still THEN
            CONTINUE;
        ELSIF settle_parked.discard THEN
            DELETE FROM lars.parked p WHERE p.id = one.id;
            changed := changed + 1;
        ELSIF lars.unpark(settle_parked.grp, one.id) = 'done' THEN
            changed := changed + 1;
        ELSE
            passed_over := passed_over + 1;
        END IF;
    END LOOP;
END $$;

-- Lets the parked timers that meet the conditions run again, of which at least one must be given.
-- What another transaction holds, or has a key that is taken, is passed over. For a transaction that
-- has made a timer with the key, and is open, the step waits.
CREATE FUNCTION lars.retry_all(
    grp text, key_prefix text DEFAULT NULL, tag text DEFAULT NULL, handler text DEFAULT NULL,
    after text DEFAULT NULL, most int DEFAULT 1000, due_from timestamptz DEFAULT NULL,
    due_before timestamptz DEFAULT NULL, failed_with text DEFAULT NULL,
    OUT looked_at int, OUT changed int, OUT passed_over int, OUT next text
) LANGUAGE sql AS $$
    SELECT * FROM lars.settle_parked(false, $1, lars.query_of(
        '{parked}', $1, $2, $3, $4, NULL, $7, $8, $9), $5, $6)
$$;

-- Deletes them, in the same way.
CREATE FUNCTION lars.discard_all(
    grp text, key_prefix text DEFAULT NULL, tag text DEFAULT NULL, handler text DEFAULT NULL,
    after text DEFAULT NULL, most int DEFAULT 1000, due_from timestamptz DEFAULT NULL,
    due_before timestamptz DEFAULT NULL, failed_with text DEFAULT NULL,
    OUT looked_at int, OUT changed int, OUT passed_over int, OUT next text
) LANGUAGE sql AS $$
    SELECT * FROM lars.settle_parked(true, $1, lars.query_of(
        '{parked}', $1, $2, $3, $4, NULL, $7, $8, $9), $5, $6)
$$;

-- Runs of this handler start no more, until it is resumed: whether they did. The nodes learn of it
-- with their next renewal.
CREATE FUNCTION lars.pause(grp text, handler text) RETURNS boolean LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM lars.check_group(pause.grp);
    IF pause.handler IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'handler must not be NULL';
    END IF;
    INSERT INTO lars.paused VALUES (pause.grp, pause.handler) ON CONFLICT DO NOTHING;
    RETURN FOUND;
END $$;

-- Runs of this handler start again: whether it was paused.
CREATE FUNCTION lars.resume(grp text, handler text) RETURNS boolean LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM lars.check_group(resume.grp);
    IF resume.handler IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'handler must not be NULL';
    END IF;
    DELETE FROM lars.paused p WHERE p.grp = resume.grp AND p.handler = resume.handler;
    RETURN FOUND;
END $$;

UPDATE lars.meta SET version = 3;
