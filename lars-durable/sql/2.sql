-- Version 2 of the schema: series end by themselves. A node runs this itself if its role may, and so
-- does `psql -1 -v ON_ERROR_STOP=1 -f 2.sql` by hand.

DROP FUNCTION lars.schedule(text, text, anycompatible, interval, text, int, interval, text, interval,
                            interval, text, boolean);

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
-- The payload is text, json or jsonb.
CREATE FUNCTION lars.schedule(
    grp text, handler text, payload anycompatible, delay interval,
    key text DEFAULT NULL, payload_version int DEFAULT 1, remember interval DEFAULT NULL,
    on_conflict text DEFAULT 'keep',
    fixed_delay interval DEFAULT NULL, fixed_rate interval DEFAULT NULL, missed text DEFAULT 'burst',
    new_group boolean DEFAULT false, until timestamptz DEFAULT NULL, times bigint DEFAULT NULL
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
            DELETE FROM lars.timer t WHERE t.grp = schedule.grp AND t.key = schedule.key;
        END IF;
        INSERT INTO lars.timer (id, grp, bucket, due_at, deadline, planned_at, key, handler,
                                payload_version, payload, repeat, remember)
        SELECT number, schedule.grp, place, due, due, due, schedule.key, schedule.handler,
               schedule.payload_version, body, series::text, keep
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
    -- Its owner may have loaded beyond it.
    IF due < now_is + (SELECT max(n.ahead) * interval '1 microsecond' FROM lars.node n
                        WHERE n.grp = schedule.grp) THEN
        PERFORM pg_notify(lars.channel(schedule.grp), place || ':' || number);
    END IF;
    RETURN number;
END $$;

UPDATE lars.meta SET version = 2;
