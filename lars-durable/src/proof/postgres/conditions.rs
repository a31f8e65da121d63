//! Which timers the functions of the schema change: the conditions of a query, in SQL.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::server::{Connected, server};
use crate::Timers;
use crate::query::{Query, State};

const HOUR: u64 = 3_600;

/// A table of timers, each with its identity: they are made as they are, and nobody runs them.
fn insert(client: &Connected, timers: &str) {
    client.execute(&format!(
        "INSERT INTO lars.timer (id, key, tag, handler, due_at, deadline, fence, attempt,
                                 last_error, grp, bucket, planned_at, payload_version, payload)
         SELECT given.*, 'default', id % 4, now(), 1, '1'
           FROM ({timers}) AS given (id, key, tag, handler, due, deadline, fence, attempt, error)"
    ));
}

/// Which timers, of those with identities from 1 to `last`, this statement changes. It is undone.
fn changed(client: &Connected, call: &str, last: i64) -> (i64, BTreeSet<u64>) {
    client.execute("BEGIN");
    let looked_at = client.number(&format!("SELECT x.looked_at FROM lars.{call} AS x"));
    let changed = client.text(&format!(
        "SELECT string_agg(n::text, ' ') FROM generate_series(1, {last}) AS n WHERE NOT EXISTS (
                SELECT FROM lars.timer WHERE id = n AND NOT cancelled
                   AND NOT (isfinite(deadline) AND deadline > now() + interval '900 days'))
            AND NOT EXISTS (SELECT FROM lars.parked WHERE id = n)"
    ));
    client.execute("ROLLBACK");
    let changed = changed.unwrap_or_default();
    (looked_at, changed.split_whitespace().map(|id| id.parse().unwrap()).collect())
}

/// The calls that take these conditions, by key and by tag, and whether each moves what it finds.
fn calls(given: &str) -> [(String, bool); 4] {
    [
        (format!("cancel_all('default', 'k/', {given})"), false),
        (format!("cancel_all('default', tag => 'red', {given})"), false),
        (format!("reset_all('default', '1000 days', 'k/', {given})"), true),
        (format!("reset_all('default', '1000 days', tag => 'red', {given})"), true),
    ]
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn sql_changes_the_timers_that_meet_each_condition_and_two_together() {
    let server = server();
    let database = server.database();
    let durable = database.durable().start().unwrap();
    durable.timers().pause("b").wait().unwrap();
    let client = database.client();
    insert(
        &client,
        "SELECT n, 'k/' || n, 'red', handler, now() + due::interval,
                CASE deadline WHEN 'never' THEN 'infinity' ELSE now() + deadline::interval END,
                fence, attempt, error
           FROM (VALUES (1, 'a', '1 h', '1 h', NULL::bigint, 0, NULL),
                        (2, 'a', '-1 h', '-1 h', NULL, 0, NULL),
                        (3, 'a', '-1 h', '-1 h', 1, 1, 'connection lost'),
                        (4, 'a', '2 h', '2 h', NULL, 2, 'connection refused'),
                        (5, 'b', '1 h', '1 h', NULL, 0, NULL),
                        (6, 'b', '-2 h', '-2 h', NULL, 0, NULL),
                        (7, 'a', '1 h', 'never', NULL, 0, NULL),
                        (8, 'a', '-1 h', '3 h', NULL, 0, NULL)
                ) AS them (n, handler, due, deadline, fence, attempt, error)
          UNION ALL VALUES (9, 'l/9', 'blue', 'a', now(), now(), NULL::bigint, 1, 'refused')",
    );
    let cases: [(&str, &[u64]); 23] = [
        ("states => NULL", &[1, 2, 3, 4, 5, 6, 7, 8]),
        ("states => '{waiting}'", &[1, 4, 5, 7, 8]),
        ("states => '{due}'", &[2, 6]),
        ("states => '{running, waiting}'", &[1, 3, 4, 5, 7, 8]),
        ("states => '{retrying}'", &[4]),
        ("states => '{paused}'", &[5, 6]),
        ("states => '{due, retrying}'", &[2, 4, 6]),
        ("states => '{due, parked}'", &[2, 6]),
        ("due_from => now() + interval '90 min'", &[4, 7, 8]),
        ("due_from => '-infinity'", &[1, 2, 3, 4, 5, 6, 7, 8]),
        ("due_from => '294276-12-31 23:59:59.999999+00'", &[7]),
        ("due_from => 'infinity'", &[]),
        ("due_before => now()", &[2, 3, 6]),
        ("due_before => '-infinity'", &[]),
        ("due_before => '294276-12-31 23:59:59.999999+00'", &[1, 2, 3, 4, 5, 6, 8]),
        ("due_before => 'infinity'", &[1, 2, 3, 4, 5, 6, 7, 8]),
        ("failed_with => 'refused'", &[4]),
        ("failed_with => ''", &[3, 4]),
        ("failed_with => 'Refused'", &[]),
        ("handler => 'b', states => '{due}'", &[6]),
        ("states => '{waiting}', failed_with => 'connection'", &[4]),
        (
            "due_from => now() - interval '90 min', due_before => now() + interval '90 min'",
            &[1, 2, 3, 5],
        ),
        ("due_before => now(), failed_with => 'lost'", &[3]),
    ];
    for (given, meant) in cases {
        for (call, moves) in calls(given) {
            // What runs is not moved.
            let meant = meant.iter().copied().filter(|id| !(moves && *id == 3)).collect();
            assert_eq!(changed(&client, &call, 9).1, meant, "{call}");
        }
    }
    durable.close().unwrap();
}

/// What a query finds; `None` if it is refused.
fn found(timers: &Timers, query: &Query) -> Option<(i64, BTreeSet<u64>)> {
    let page = timers.list(query).wait().ok()?;
    assert_eq!(page.next, None);
    let ids = page.timers.iter().map(|it| it.timer().id).collect();
    Some((i64::try_from(page.looked_at).unwrap(), ids))
}

/// One time in three.
fn at_times<T>(make: impl FnOnce() -> T) -> Option<T> {
    (fastrand::u8(..3) == 0).then(make)
}

/// An hour near this one, or the end of time.
fn any_time(base: u64) -> (SystemTime, String) {
    match fastrand::u64(..12) {
        // Far behind what the database can express.
        11 => (UNIX_EPOCH + Duration::from_secs(1 << 50), "'infinity'".into()),
        hour => {
            let seconds = base + hour * HOUR - 5 * HOUR;
            (UNIX_EPOCH + Duration::from_secs(seconds), format!("to_timestamp({seconds})"))
        }
    }
}

/// The same conditions for both, without states.
fn any_conditions(base: u64) -> (Query, String) {
    let (mut query, mut given) = (Query::new().limit(1_000), "most => 1000".to_owned());
    if let Some(name) = at_times(|| fastrand::choice(["a", "b"]).unwrap()) {
        query = query.handler(name);
        given += &format!(", handler => '{name}'");
    }
    if let Some(text) = at_times(|| fastrand::choice(["refused", "", "away", "none"]).unwrap()) {
        query = query.failed_with(text);
        given += &format!(", failed_with => '{text}'");
    }
    if let Some((time, sql)) = at_times(|| any_time(base)) {
        query = query.due_from(time);
        given += &format!(", due_from => {sql}");
    }
    if let Some((time, sql)) = at_times(|| any_time(base)) {
        query = query.due_before(time);
        given += &format!(", due_before => {sql}");
    }
    (query, given)
}

/// Some states, of which at least one is for each call.
fn any_states() -> (Vec<State>, String) {
    let all = [
        (State::Waiting, "waiting"),
        (State::Due, "due"),
        (State::Retrying, "retrying"),
        (State::Paused, "paused"),
        (State::Running, "running"),
    ];
    let one = fastrand::usize(..4);
    let taken = |place: &usize| *place == one || fastrand::u8(..3) == 0;
    match at_times(|| (0..5).filter(taken).map(|place| all[place]).collect::<Vec<_>>()) {
        None => (all.map(|(state, _)| state).to_vec(), String::new()),
        Some(some) => {
            let words: Vec<&str> = some.iter().map(|(_, word)| *word).collect();
            let given = format!(", states => '{{{}}}'", words.join(","));
            (some.into_iter().map(|(state, _)| state).collect(), given)
        }
    }
}

/// 120 timers, and half of them are parked.
fn insert_at_random(client: &Connected, base: u64) {
    let any = |of: &[&'static str]| *fastrand::choice(of).unwrap();
    let rows: Vec<String> = (1..=120)
        .map(|id| {
            let (prefix, tag) = (any(&["k/", "l/"]), any(&["'red'", "'blue'", "NULL"]));
            let deadline = any_time(base).1;
            let early = fastrand::u64(..5);
            format!(
                "({id}, '{prefix}{id}', {tag}, '{}',
                  least({deadline}, to_timestamp({})) - interval '{early} h', {deadline}, {},
                  {}, {})",
                any(&["a", "b"]),
                base + 9 * HOUR,
                any(&["NULL", "NULL", "1"]),
                fastrand::u8(..2),
                any(&["NULL", "'connection refused'", "'the service is away'"]),
            )
        })
        .collect();
    let rows = rows.join(", ");
    insert(
        client,
        &format!(
            "SELECT id, key, tag, handler, due, deadline::timestamptz, fence::bigint, attempt, error
               FROM (VALUES {rows}) AS them (id, key, tag, handler, due, deadline, fence, attempt,
                                             error)"
        ),
    );
    client.execute(
        "INSERT INTO lars.parked (id, grp, bucket, deadline, planned_at, key, handler,
                                  payload_version, payload, repeat, remember, attempt, deaths,
                                  last_error, run, reason, parked_at, tag)
         SELECT id, grp, bucket, deadline, planned_at, key, handler, payload_version, payload,
                repeat, remember, attempt, deaths, last_error, run,
                CASE id % 3 WHEN 0 THEN 'the service is away' ELSE 'no such order' END, now(), tag
           FROM lars.timer WHERE id > 60;
         DELETE FROM lars.timer WHERE id > 60",
    );
}

/// A list and a count in SQL show what the query finds, in its order.
fn shows(client: &Connected, timers: &Timers, query: Query, given: &str) {
    for (query, more) in [
        (query.clone(), ""),
        (query.clone().tag("red"), ", tag => 'red'"),
        (query.clone().key_prefix("k/"), ", key_prefix => 'k/'"),
        (query.key_prefix("k/").tag("red"), ", key_prefix => 'k/', tag => 'red'"),
    ] {
        let (mut query, mut ids, mut looked_at) = (query, Vec::new(), 0);
        // With what is parked a query takes a step of its own.
        let found = loop {
            let Ok(page) = timers.list(&query).wait() else { break false };
            ids.extend(page.timers.iter().map(|it| it.timer().id.to_string()));
            looked_at += page.looked_at;
            let Some(next) = page.next else { break true };
            query = query.after(next);
        };
        if !found {
            continue;
        }
        let given = format!("'default', {given}{more}");
        let listed = format!("SELECT string_agg(x.id::text, ' ') FROM lars.list({given}) AS x");
        assert_eq!(client.text(&listed).unwrap_or_default(), ids.join(" "), "{given}");
        let counted = format!(
            "SELECT concat_ws(' ', x.looked_at, x.matched, x.next) FROM lars.count({given}) AS x"
        );
        let expected = format!("{looked_at} {}", ids.len());
        assert_eq!(client.text(&counted).unwrap(), expected, "{given}");
    }
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn sql_and_a_query_with_the_same_conditions_mean_the_same_timers() {
    let server = server();
    let database = server.database();
    let durable = database.durable().start().unwrap();
    let (client, timers) = (database.client(), durable.timers());
    timers.pause("b").wait().unwrap();
    let base = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    insert_at_random(&client, base);
    let mut changes = 0;
    let mut compare = |query: Query, call: &str| match found(&timers, &query) {
        None => {
            let error = client.try_execute(&format!("SELECT lars.{call}")).unwrap_err();
            let words = error.as_db_error().unwrap().message().to_owned();
            assert!(words.contains("before due_before"), "{words}");
        }
        Some(meant) => {
            assert_eq!(changed(&client, call, 120), meant, "{call}");
            changes += meant.1.len();
        }
    };
    for _ in 0..100 {
        let (query, given) = any_conditions(base);
        let (states, words) = any_states();
        for (call, moves) in calls(&format!("{given}{words}")) {
            let states = states.iter().copied().filter(|it| !(moves && *it == State::Running));
            let query = query.clone().states(states);
            let by_tag = call.contains("tag =>");
            compare(if by_tag { query.tag("red") } else { query.key_prefix("k/") }, &call);
        }
        // Some condition has to be there.
        let all = if given.contains("due_from") { "" } else { ", due_from => '-infinity'" };
        // All of the group, bucket by bucket.
        let unparked = query.clone().states(states.iter().copied());
        compare(unparked, &format!("cancel_all('default', {given}{words}{all})"));
        let parked = query.clone().states([State::Parked]);
        compare(parked.clone(), &format!("discard_all('default', {given}{all})"));
        let call = format!("discard_all('default', 'k/', 'red', {given})");
        compare(parked.key_prefix("k/").tag("red"), &call);
        // Those that are parked as well.
        let all = [State::Waiting, State::Due, State::Running, State::Parked];
        shows(&client, &timers, query.states(all), &given);
    }
    assert!(changes > 100, "only {changes} timers were changed");
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn sql_goes_on_with_the_same_conditions_where_a_step_ended() {
    let server = server();
    let database = server.database();
    let durable = database.durable().start().unwrap();
    let client = database.client();
    insert(
        &client,
        "SELECT n, 'k/' || n, 'red', 'a', now() + n * interval '1 h', now() + n * interval '1 h',
                NULL::bigint, n % 2, CASE n % 2 WHEN 1 THEN 'refused' END
           FROM generate_series(1, 20) AS n",
    );
    let given = "most => 3, states => '{retrying}', due_before => now() + interval '870 min',
                 failed_with => 'refused'";
    for (call, moves) in calls(given) {
        client.execute("BEGIN");
        let (mut after, mut steps) = ("NULL".to_owned(), Vec::new());
        while after != "''" {
            let call = call.replace("most =>", &format!("after => {after}, most =>"));
            let count = if moves { "moved" } else { "prevented" };
            let step = format!("SELECT concat_ws(' ', x.{count}, x.next) FROM lars.{call} AS x");
            let step = client.text(&step).unwrap();
            let (count, next) = step.split_once(' ').unwrap_or((&step, ""));
            steps.push(count.parse::<u8>().unwrap());
            after = format!("'{next}'");
        }
        client.execute("ROLLBACK");
        let each = *steps.iter().max().unwrap();
        assert_eq!((each, steps.iter().sum::<u8>()), (3, 7), "{call}: {steps:?}");
    }
    assert_eq!(client.number("SELECT count(*) FROM lars.timer"), 20);
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn a_timer_that_meets_the_conditions_no_longer_when_its_turn_comes_stays() {
    let server = server();
    let database = server.database();
    let durable = database.durable().start().unwrap();
    let client = database.client();
    insert(
        &client,
        "SELECT n, 'k/' || n, 'red', 'a', now() - n * interval '1 h', now() - n * interval '1 h',
                NULL::bigint, 0, NULL FROM generate_series(1, 3) AS n",
    );
    // While one is cancelled or moved, the one in the middle is put off.
    client.execute(
        "CREATE FUNCTION put_off() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             UPDATE lars.timer SET deadline = 'infinity' WHERE id = 2;
             RETURN NULL;
         END $$;
         CREATE TRIGGER put_off AFTER DELETE OR UPDATE OF planned_at ON lars.timer FOR EACH ROW
             EXECUTE FUNCTION put_off()",
    );
    for (call, _) in calls("states => '{due}'") {
        assert_eq!(changed(&client, &call, 3), (3, BTreeSet::from([1, 3])), "{call}");
    }
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn what_is_parked_for_another_reason_when_its_turn_comes_stays() {
    let server = server();
    let database = server.database();
    let durable = database.durable().start().unwrap();
    let client = database.client();
    client.execute(
        "INSERT INTO lars.parked (id, grp, bucket, deadline, planned_at, handler, payload_version,
                                  payload, remember, attempt, deaths, run, reason, parked_at)
         SELECT n, 'default', 0, now(), now(), 'a', 1, '1', 0, 1, 0, 0, 'refused', now()
           FROM generate_series(1, 3) AS n;
         CREATE FUNCTION park_again() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             UPDATE lars.parked SET reason = 'no such order' WHERE id = 2;
             RETURN NULL;
         END $$;
         CREATE TRIGGER park_again AFTER DELETE ON lars.parked FOR EACH ROW
             EXECUTE FUNCTION park_again()",
    );
    for call in ["discard_all", "retry_all"] {
        client.execute("BEGIN");
        let sql =
            format!("SELECT x::text FROM lars.{call}('default', failed_with => 'refused') AS x");
        assert_eq!(client.text(&sql).unwrap(), "(3,2,0,)", "{call}");
        assert_eq!(client.number("SELECT id FROM lars.parked"), 2, "{call}");
        client.execute("ROLLBACK");
    }
    durable.close().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn conditions_that_no_timer_can_meet_are_refused_by_sql_by_name() {
    let server = server();
    let database = server.database();
    let durable = database.durable().start().unwrap();
    let client = database.client();
    let refused = |call: &str| {
        let error = client.try_execute(&format!("SELECT lars.{call}")).unwrap_err();
        error.as_db_error().unwrap().message().to_owned()
    };
    let known = "but each must be one of waiting, due, running, retrying, paused, parked";
    for (given, wrong) in [
        ("'{waiting, lost}'", "'lost'"),
        ("'{Due}'", "'Due'"),
        ("ARRAY[NULL, 'due']", "NULL"),
        ("'{\"\"}'", "''"),
    ] {
        for (call, _) in calls(&format!("states => {given}")) {
            assert_eq!(refused(&call), format!("states has {wrong}, {known}"), "{call}");
        }
    }
    let needed = "but at least 1 of these is needed: waiting, due, running, retrying, paused";
    for given in ["{}", "{parked}"] {
        for (call, moves) in calls(&format!("states => '{given}'")) {
            let needed = if moves { &needed.replace(" running,", "") } else { needed };
            assert_eq!(refused(&call), format!("states is '{given}', {needed}"), "{call}");
        }
    }
    let moved = refused("reset_all('default', '1 h', states => '{running}')");
    assert!(moved.starts_with("states is '{running}', but"), "{moved}");
    client.execute("SET TIME ZONE 'UTC'");
    let given = "due_from => '2026-01-02 00:00+00', due_before => '2026-01-02 00:00+00'";
    let [cancel, _, reset, _] = calls(given).map(|(call, _)| call);
    let retry = format!("retry_all('default', {given})");
    for call in [cancel, reset, retry] {
        let words = refused(&call);
        assert!(
            words.starts_with("due_from is 2026-01-02 00:00:00+00, but it must be before"),
            "{words}"
        );
    }
    durable.close().unwrap();
}

/// A plan that seems dear is compiled, which takes longer than the work for a thousand timers.
#[test]
#[ignore = "needs a PostgreSQL server: bash ci/postgres.sh"]
fn functions_of_the_schema_that_shun_scans_do_not_compile() {
    let server = server();
    let database = server.database();
    let durable = database.durable().start().unwrap();
    let of = |rest: &str| {
        let shun = "FROM pg_proc WHERE pronamespace = 'lars'::regnamespace
                     AND 'enable_seqscan=off' = ANY (proconfig)";
        database.client().text(&format!("SELECT string_agg(proname, ' ') {shun} {rest}"))
    };
    assert!(of("").is_some());
    assert_eq!(of("AND NOT 'jit=off' = ANY (proconfig)"), None);
    durable.close().unwrap();
}
