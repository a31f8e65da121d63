//! A shop in PostgreSQL, in async code. Each order and its payment deadline are committed in one
//! transaction, and so are the payment and the end of the deadline, or the deadline's run and what
//! it writes. Orders are placed and expire through sqlx, and are paid through tokio-postgres.
//!
//! ```sh
//! cargo run --release -p examples --features sql --example sql_transactions
//! ```
//!
//! It starts a PostgreSQL server in a temporary directory (Debian: `apt-get install postgresql`),
//! and exits with an error if an order is neither paid nor expired in the end, or both, or expired
//! twice although its first attempt was rolled back, or has a timer left.

use std::process::ExitCode;
use std::time::Duration;

use examples::checks::{Problem, verify};
use examples::postgres::{MISSING, Server};
use lars_durable::backoff::BackoffPolicy;
use lars_durable::{Durable, Fired, Handler, Payload, Timers};
use serde::{Deserialize, Serialize};
use sqlx::{AssertSqlSafe, PgPool};
use tokio_postgres::{Client, NoTls};

/// Keys are unique in it, and `lars.cancel` is told of it.
const GROUP: &str = "shop";
const ORDERS: i64 = 60;
/// How long a customer has to pay.
const PAYMENT: Duration = Duration::from_secs(1);
/// How long something may take, on however busy a machine.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Serialize, Deserialize)]
struct PaymentDue {
    order: i64,
}

impl Payload for PaymentDue {
    const NAME: &'static str = "payment-due";
}

fn main() -> Result<ExitCode, Problem> {
    let server = Server::start("sql-transactions")?;
    let Some(server) = server else {
        eprintln!("{MISSING}");
        return Ok(ExitCode::FAILURE);
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let checks = runtime.block_on(keep_shop(&server.parameters(), &server.url()))?;
    verify(&checks)?;
    Ok(ExitCode::SUCCESS)
}

async fn keep_shop(parameters: &str, url: &str) -> Result<Vec<(&'static str, bool)>, Problem> {
    let pool = PgPool::connect(url).await?;
    let table = "CREATE TABLE orders (id bigserial PRIMARY KEY, state text NOT NULL,
                                      expiries int NOT NULL DEFAULT 0)";
    sqlx::query(table).execute(&pool).await?;
    let node = start(parameters, &pool)?;
    let timers = node.timers();
    let (mut client, connection) = tokio_postgres::connect(parameters, NoTls).await?;
    tokio::spawn(connection);

    for _ in 0..ORDERS {
        place(&pool, &timers, true).await?;
    }
    let lost = place(&pool, &timers, false).await?;
    let ghost = timers.get(&*format!("payment/{lost}")).await?;
    for order in (1..=ORDERS).filter(|order| order % 3 != 0) {
        pay(&mut client, order).await?;
    }

    let count = async |sql: &'static str| -> Result<i64, Problem> {
        Ok(sqlx::query_scalar(sql).fetch_one(&pool).await?)
    };
    let left = "SELECT count(*) FROM lars.timer";
    let all_over = async {
        while count(left).await? > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok::<_, Problem>(())
    };
    tokio::time::timeout(PATIENCE, all_over).await??;
    let paid = count("SELECT count(*) FROM orders WHERE state = 'paid'").await?;
    let expired = count("SELECT count(*) FROM orders WHERE state = 'expired'").await?;
    let expiries = count("SELECT sum(expiries) FROM orders").await?;
    node.close_async().await?;
    println!("{paid} orders were paid, and {expired} have expired");
    Ok(vec![
        ("an order that was rolled back has no timer", ghost.is_none()),
        ("each order was paid or has expired", paid + expired == ORDERS),
        ("some were not paid", expired >= ORDERS / 3),
        ("none has expired twice, although each first attempt failed", expiries == expired),
    ])
}

/// The node polls its handlers on the runtime that is around this call.
fn start(parameters: &str, pool: &PgPool) -> Result<Durable, Problem> {
    let soon = BackoffPolicy::builder().initial(Duration::from_millis(20)).build()?;
    let pool = pool.clone();
    let expire = Handler::future(move |due| expire(due, pool.clone())).backoff(soon);
    Ok(Durable::postgres(parameters).group(GROUP).handler(expire).start()?)
}

/// The order and its deadline: both, or neither.
async fn place(pool: &PgPool, timers: &Timers, keep: bool) -> Result<i64, Problem> {
    let mut transaction = pool.begin().await?;
    let insert = "INSERT INTO orders (state) VALUES ('placed') RETURNING id";
    let order: i64 = sqlx::query_scalar(insert).fetch_one(&mut *transaction).await?;
    let due = timers.schedule_once(PAYMENT, PaymentDue { order });
    let (statement, timer) = due.key(format!("payment/{order}")).submission()?;
    sqlx::query(statement).bind(timer).execute(&mut *transaction).await?;
    match keep {
        true => transaction.commit().await?,
        false => transaction.rollback().await?,
    }
    Ok(order)
}

/// The payment and the end of the deadline. What has expired stays so.
async fn pay(client: &mut Client, order: i64) -> Result<(), Problem> {
    let transaction = client.transaction().await?;
    let paid = "UPDATE orders SET state = 'paid' WHERE id = $1 AND state = 'placed'";
    if transaction.execute(paid, &[&order]).await? == 1 {
        let key = format!("payment/{order}");
        // Either it is prevented, or it runs already and finds the order paid.
        transaction.query_one("SELECT lars.cancel($1, $2)", &[&GROUP, &key]).await?;
    }
    Ok(transaction.commit().await?)
}

/// What the run writes and its end: both, or neither, whatever fails.
async fn expire(due: Fired<PaymentDue>, pool: PgPool) -> Result<(), Problem> {
    let mut transaction = pool.begin().await?;
    let expired = "UPDATE orders SET state = 'expired', expiries = expiries + 1
                    WHERE id = $1 AND state = 'placed'";
    sqlx::query(expired).bind(due.payload().order).execute(&mut *transaction).await?;
    let (statement, [id, fence]) = due.completion()?;
    let end = sqlx::query(AssertSqlSafe(statement)).bind(id).bind(fence);
    if end.execute(&mut *transaction).await?.rows_affected() == 0 {
        return Err("another run has begun".into()); // dropped: rolled back
    }
    if due.attempt() == 1 {
        return Err("as if the connection were lost before the commit".into());
    }
    Ok(transaction.commit().await?)
}
