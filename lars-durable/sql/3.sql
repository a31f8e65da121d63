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

-- Those that were parked first are the first to go.
CREATE INDEX parked_since ON lars.parked (grp COLLATE "POSIX", parked_at, id);

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
    IF schedule.tag = '' OR octet_length(schedule.tag) > 128 THEN
        RAISE program_limit_exceeded USING MESSAGE = format(
            'the tag has %s bytes, but from 1 to 128 are allowed', octet_length(schedule.tag));
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
            DELETE FROM lars.timer t WHERE t.grp = schedule.grp AND t.key = schedule.key
            RETURNING CASE WHEN t.fence IS NOT NULL THEN t.id END INTO other;
            -- The run that has begun hears of it.
            IF other IS NOT NULL THEN
                PERFORM lars.tell_owner(schedule.grp, place, other, '-infinity');
            END IF;
        END IF;
        INSERT INTO lars.timer (id, grp, bucket, due_at, deadline, planned_at, key, handler,
                                payload_version, payload, repeat, remember, tag)
        SELECT number, schedule.grp, place, due, due, due, schedule.key, schedule.handler,
               schedule.payload_version, body, series::text, keep, schedule.tag
         WHERE schedule.until IS NULL OR due <= schedule.until
        ON CONFLICT (grp, key) WHERE key IS NOT NULL DO NOTHING;
        EXIT WHEN FOUND;
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

-- The timer that has this key, which is from now on the caller's until his transaction ends.
CREATE FUNCTION lars.hold(grp text, key text) RETURNS bigint LANGUAGE sql AS $$
    SELECT t.id FROM lars.timer t WHERE t.grp = $1 AND t.key = $2 FOR UPDATE
$$;

-- Prevents the run of a timer: 'prevented' exactly when no run starts any more, once the transaction
-- has committed; 'running' if one has started, which hears of it and is the last of a series; else
-- 'not found'.
CREATE FUNCTION lars.cancel(grp text, id bigint) RETURNS text LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    place smallint;
BEGIN
    PERFORM lars.check_group(cancel.grp);
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
    IF EXISTS (SELECT FROM lars.used_key u WHERE u.grp = unpark.grp AND u.key = found_key
                  AND u.until > now_is) THEN
        RETURN 'remembered';
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
    handler     text,
    tag         text,
    states      text[],
    due_from    timestamptz,
    due_before  timestamptz,
    failed_with text,
    paused      text[],         -- the handlers that are
    now_is      timestamptz     -- what is due is due at this time
);

-- A scan of the small table of nodes, which no index helps, seems dear where scans are off. So each
-- function here that turns them off does not compile either: it would, once for each timer.

-- Refuses what no timer can meet: of the states, at least one must be among those that fit the call.
CREATE FUNCTION lars.query_of(
    fits text[], grp text, handler text, tag text, states text[], due_from timestamptz,
    due_before timestamptz, failed_with text
) RETURNS lars.query LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET jit = off AS $$
DECLARE
    known text[] := '{waiting, due, running, retrying, paused, parked}';
    word  text;
BEGIN
    FOREACH word IN ARRAY coalesce(query_of.states, '{}') LOOP
        IF word = ANY (known) IS NOT TRUE THEN
            RAISE invalid_parameter_value USING MESSAGE = format(
                'states has %L, but each must be one of %s', word, array_to_string(known, ', '));
        END IF;
    END LOOP;
    IF NOT query_of.states && query_of.fits THEN
        RAISE invalid_parameter_value USING MESSAGE = format(
            'states is %L, but at least 1 of these is needed: %s', query_of.states,
            array_to_string(query_of.fits, ', '));
    END IF;
    IF query_of.due_from >= query_of.due_before THEN
        RAISE invalid_parameter_value USING MESSAGE = format(
            'due_from is %s, but it must be before due_before, which is %s', query_of.due_from,
            query_of.due_before);
    END IF;
    RETURN (query_of.handler, query_of.tag, query_of.states, query_of.due_from, query_of.due_before,
            query_of.failed_with,
            ARRAY(SELECT p.handler FROM lars.paused p WHERE p.grp = query_of.grp), lars.clock());
END $$;

-- Whether a timer is meant; of a parked one, `reason` says why it is. The same rule as that of the
-- nodes. It has no settings of its own, so that it becomes part of the statement that asks.
CREATE FUNCTION lars.is_meant(
    query lars.query, handler text, tag text, started boolean, deadline timestamptz, attempt int,
    last_error text, reason text
) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT (($1).handler IS NULL OR $2 = ($1).handler)
       AND (($1).tag IS NULL OR coalesce($3 = ($1).tag, false))
       AND (($1).states IS NULL OR CASE
            WHEN $8 IS NOT NULL THEN 'parked' = ANY (($1).states)
            WHEN $4 THEN 'running' = ANY (($1).states)
            ELSE CASE WHEN $5 <= ($1).now_is THEN 'due' ELSE 'waiting' END = ANY (($1).states)
                 OR $6 > 0 AND 'retrying' = ANY (($1).states)
                 OR $2 = ANY (($1).paused) AND 'paused' = ANY (($1).states) END)
       -- One that never comes due is before the end of time, so that a range without end has it.
       AND (($1).due_from IS NULL
            OR least($5, timestamptz '294276-12-31 23:59:59.999999+00') >= ($1).due_from)
       AND (($1).due_before IS NULL
            OR least($5, timestamptz '294276-12-31 23:59:59.999999+00') < ($1).due_before)
       AND (($1).failed_with IS NULL
            OR coalesce(pg_catalog.strpos($7, ($1).failed_with) > 0, false)
            OR coalesce(pg_catalog.strpos($8, ($1).failed_with) > 0, false))
$$;

-- Moves or cancels a timer if it is meant still: 'changed'; 'running', and so not moved, or
-- cancelled after this run; 'held' by another transaction; or NULL.
CREATE FUNCTION lars.change_meant(query lars.query, grp text, id bigint, delay interval) RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    meant boolean;
BEGIN
    SELECT lars.is_meant(change_meant.query, t.handler, t.tag, t.fence IS NOT NULL, t.deadline,
                         t.attempt, t.last_error, NULL)
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
CREATE FUNCTION lars.change_keys(
    delay interval, grp text, key_prefix text, query lars.query, after text, most int,
    OUT looked_at int, OUT changed int, OUT running int, OUT passed_over int, OUT next text
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    -- No key has a character below this one, or so many of that one.
    first text := greatest(change_keys.after || chr(1), change_keys.key_prefix COLLATE "POSIX");
    last  text := change_keys.key_prefix || repeat(chr(1114111), 129);
    before_next text := change_keys.after;
    one record;
    did text;
BEGIN
    PERFORM lars.check_group(change_keys.grp);
    PERFORM lars.check_most(change_keys.most);
    IF change_keys.key_prefix IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'key_prefix must not be NULL';
    END IF;
    looked_at := 0; changed := 0; running := 0; passed_over := 0;
    FOR one IN
        SELECT t.id, t.key, t.grp = change_keys.grp
               AND lars.is_meant(change_keys.query, t.handler, t.tag, t.fence IS NOT NULL,
                                 t.deadline, t.attempt, t.last_error, NULL) AS meant
          FROM (SELECT * FROM lars.timer t WHERE t.key >= first AND t.key < last
                 ORDER BY t.key, t.grp LIMIT 5001) AS t ORDER BY t.key, t.grp
    LOOP
        -- Groups may have the same key, and then are looked at together.
        IF next IS DISTINCT FROM one.key THEN
            IF changed + running + passed_over >= change_keys.most THEN
                RETURN;
            END IF;
            before_next := next;
            next := one.key;
        END IF;
        looked_at := looked_at + 1;
        CONTINUE WHEN NOT one.meant;
        did := lars.change_meant(change_keys.query, change_keys.grp, one.id, change_keys.delay);
        changed := changed + (did IS NOT DISTINCT FROM 'changed')::int;
        running := running + (did IS NOT DISTINCT FROM 'running')::int;
        passed_over := passed_over + (did IS NOT DISTINCT FROM 'held')::int;
    END LOOP;
    -- More may have the last key.
    next := CASE WHEN looked_at > 5000 THEN before_next END;
END $$;

-- What lars.cancel_tagged and lars.reset_tagged do.
CREATE FUNCTION lars.change_tagged(
    delay interval, grp text, query lars.query, after text, most int,
    OUT looked_at int, OUT changed int, OUT running int, OUT passed_over int, OUT next text
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off
    SET datestyle = 'ISO' SET timezone = 'UTC' AS $$
DECLARE
    first_id  bigint      := coalesce(split_part(change_tagged.after, '@', 1)::bigint, 0);
    first_due timestamptz :=
        coalesce(split_part(change_tagged.after, '@', 2)::timestamptz, '-infinity');
    -- It is looked at when it is due, or earlier.
    last_due  timestamptz := coalesce(change_tagged.query.due_before, 'infinity');
    wanted    text        := change_tagged.query.tag;
    one record;
    did text;
BEGIN
    PERFORM lars.check_group(change_tagged.grp);
    PERFORM lars.check_most(change_tagged.most);
    IF wanted IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'tag must not be NULL';
    END IF;
    looked_at := 0; changed := 0; running := 0; passed_over := 0;
    FOR one IN
        SELECT t.id, t.due_at,
               lars.is_meant(change_tagged.query, t.handler, t.tag, t.fence IS NOT NULL,
                             t.deadline, t.attempt, t.last_error, NULL) AS meant
          FROM lars.timer t
         WHERE t.tag = wanted AND t.grp = change_tagged.grp
           AND (t.due_at, t.id) > (first_due, first_id) AND t.due_at <= last_due
         ORDER BY t.due_at, t.id LIMIT 5001
    LOOP
        IF looked_at >= 5000 OR changed + running + passed_over >= change_tagged.most THEN
            RETURN;
        END IF;
        looked_at := looked_at + 1;
        next := one.id || '@' || one.due_at;
        CONTINUE WHEN NOT one.meant;
        did := lars.change_meant(change_tagged.query, change_tagged.grp, one.id,
                                 change_tagged.delay);
        changed := changed + (did IS NOT DISTINCT FROM 'changed')::int;
        running := running + (did IS NOT DISTINCT FROM 'running')::int;
        passed_over := passed_over + (did IS NOT DISTINCT FROM 'held')::int;
    END LOOP;
    next := NULL;
END $$;

-- Cancels the timers whose keys begin with this, a step in each call. It looks at some 5,000 of them
-- at most, from behind the key `after` on, and cancels `most` at most. `next` is the `after` of the
-- next step, and NULL after the last one. What another transaction holds is passed over.
--
-- If they are given, it cancels only those of one handler; in one of these states ('waiting', 'due',
-- 'running', 'retrying', 'paused', as in the API); that may run at `due_from` or later, and before
-- `due_before`; and whose last failure contains this text.
CREATE FUNCTION lars.cancel_all(
    grp text, key_prefix text, handler text DEFAULT NULL, after text DEFAULT NULL,
    most int DEFAULT 1000, states text[] DEFAULT NULL, due_from timestamptz DEFAULT NULL,
    due_before timestamptz DEFAULT NULL, failed_with text DEFAULT NULL,
    OUT looked_at int, OUT prevented int, OUT running int, OUT passed_over int, OUT next text
) LANGUAGE sql AS $$
    SELECT * FROM lars.change_keys(NULL, $1, $2, lars.query_of(
        '{waiting, due, running, retrying, paused}', $1, $3, NULL, $6, $7, $8, $9), $4, $5)
$$;

-- Moves them to this long from now, in the same way; of a repeat, that is its next run. What runs is
-- counted, and not changed.
CREATE FUNCTION lars.reset_all(
    grp text, key_prefix text, delay interval, handler text DEFAULT NULL, after text DEFAULT NULL,
    most int DEFAULT 1000, states text[] DEFAULT NULL, due_from timestamptz DEFAULT NULL,
    due_before timestamptz DEFAULT NULL, failed_with text DEFAULT NULL,
    OUT looked_at int, OUT moved int, OUT running int, OUT passed_over int, OUT next text
) LANGUAGE sql AS $$
    SELECT * FROM lars.change_keys(lars.check_delay($3), $1, $2, lars.query_of(
        '{waiting, due, retrying, paused}', $1, $4, NULL, $7, $8, $9, $10), $5, $6)
$$;

-- Cancels the timers with this tag, in the same way, in the order in which they are due. `after` and
-- `next` are places in it. With `due_before` it does not look at later ones, unless they were moved
-- there.
CREATE FUNCTION lars.cancel_tagged(
    grp text, tag text, handler text DEFAULT NULL, after text DEFAULT NULL,
    most int DEFAULT 1000, states text[] DEFAULT NULL, due_from timestamptz DEFAULT NULL,
    due_before timestamptz DEFAULT NULL, failed_with text DEFAULT NULL,
    OUT looked_at int, OUT prevented int, OUT running int, OUT passed_over int, OUT next text
) LANGUAGE sql AS $$
    SELECT * FROM lars.change_tagged(NULL, $1, lars.query_of(
        '{waiting, due, running, retrying, paused}', $1, $3, $2, $6, $7, $8, $9), $4, $5)
$$;

-- Moves them, in the same way.
CREATE FUNCTION lars.reset_tagged(
    grp text, tag text, delay interval, handler text DEFAULT NULL, after text DEFAULT NULL,
    most int DEFAULT 1000, states text[] DEFAULT NULL, due_from timestamptz DEFAULT NULL,
    due_before timestamptz DEFAULT NULL, failed_with text DEFAULT NULL,
    OUT looked_at int, OUT moved int, OUT running int, OUT passed_over int, OUT next text
) LANGUAGE sql AS $$
    SELECT * FROM lars.change_tagged(lars.check_delay($3), $1, lars.query_of(
        '{waiting, due, retrying, paused}', $1, $4, $2, $7, $8, $9, $10), $5, $6)
$$;

-- What lars.retry_all and lars.discard_all do.
CREATE FUNCTION lars.settle_parked(
    discard boolean, grp text, query lars.query, after bigint, most int,
    OUT looked_at int, OUT changed int, OUT passed_over int, OUT next bigint
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    one record;
BEGIN
    PERFORM lars.check_group(settle_parked.grp);
    PERFORM lars.check_most(settle_parked.most);
    looked_at := 0; changed := 0; passed_over := 0;
    FOR one IN
        SELECT p.id, lars.is_meant(settle_parked.query, p.handler, p.tag, false, p.deadline,
                                   p.attempt, p.last_error, p.reason) AS meant
          FROM lars.parked p
         WHERE p.grp = settle_parked.grp COLLATE "POSIX" AND p.id > coalesce(settle_parked.after, 0)
         ORDER BY p.id LIMIT 5001
    LOOP
        IF looked_at >= 5000 OR changed + passed_over >= settle_parked.most THEN
            RETURN;
        END IF;
        looked_at := looked_at + 1;
        next := one.id;
        CONTINUE WHEN NOT one.meant;
        PERFORM FROM lars.parked p WHERE p.id = one.id FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            passed_over := passed_over
                + (SELECT count(*) FROM lars.parked p WHERE p.id = one.id)::int;
        ELSIF settle_parked.discard THEN
            DELETE FROM lars.parked p WHERE p.id = one.id;
            changed := changed + 1;
        ELSIF lars.unpark(settle_parked.grp, one.id) = 'done' THEN
            changed := changed + 1;
        ELSE
            passed_over := passed_over + 1;
        END IF;
    END LOOP;
    next := NULL;
END $$;

-- Lets parked timers run again, a step in each call: of one handler, if it is given, those whose
-- failure contains this text, those with this tag, and those that might have run at `due_from` or
-- later, and before `due_before`. A step looks at 5,000 timers at most, from behind `after` on, and
-- lets `most` run at most. What another transaction holds, or has a key that is taken, is passed over.
CREATE FUNCTION lars.retry_all(
    grp text, handler text DEFAULT NULL, failed_with text DEFAULT NULL, after bigint DEFAULT 0,
    most int DEFAULT 1000, tag text DEFAULT NULL, due_from timestamptz DEFAULT NULL,
    due_before timestamptz DEFAULT NULL,
    OUT looked_at int, OUT changed int, OUT passed_over int, OUT next bigint
) LANGUAGE sql AS $$
    SELECT * FROM lars.settle_parked(false, $1, lars.query_of(
        '{parked}', $1, $2, $6, NULL, $7, $8, $3), $4, $5)
$$;

-- Deletes parked timers, in the same way.
CREATE FUNCTION lars.discard_all(
    grp text, handler text DEFAULT NULL, failed_with text DEFAULT NULL, after bigint DEFAULT 0,
    most int DEFAULT 1000, tag text DEFAULT NULL, due_from timestamptz DEFAULT NULL,
    due_before timestamptz DEFAULT NULL,
    OUT looked_at int, OUT changed int, OUT passed_over int, OUT next bigint
) LANGUAGE sql AS $$
    SELECT * FROM lars.settle_parked(true, $1, lars.query_of(
        '{parked}', $1, $2, $6, NULL, $7, $8, $3), $4, $5)
$$;

UPDATE lars.meta SET version = 3;
