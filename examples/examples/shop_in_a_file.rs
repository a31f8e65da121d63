//! A shop and its timers in one SQLite file. Each order and its payment deadline are committed in
//! one transaction, and so are the payment and the end of the deadline, or the deadline's run and
//! what it writes. A second program, which knows nothing but SQL, places orders as well.
//!
//! ```sh
//! cargo run --release -p examples --features durable --example shop_in_a_file
//! ```
//!
//! It exits with an error if an order is neither paid nor expired in the end, or is both, or has a
//! timer left.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use clap::Parser;
use examples::checks::Problem;
use lars_durable::{Durable, Fired, Payload};
use rusqlite::{Connection, Transaction, TransactionBehavior, params};
use serde::{Deserialize, Serialize};

type AnyError = Box<dyn std::error::Error>;

/// Orders and their deadlines in one file, committed together.
#[derive(Parser)]
struct Options {
    /// How many orders each of the two programs places. Two of three are paid in time.
    #[arg(long, default_value_t = 100)]
    orders: u32,
    /// For the second program: the file.
    #[arg(long, hide = true)]
    place_in: Option<PathBuf>,
}

/// How long a customer has to pay.
const PAYMENT: Duration = Duration::from_secs(1);

#[derive(Serialize, Deserialize)]
struct PaymentDue {
    order: i64,
}

impl Payload for PaymentDue {
    const NAME: &'static str = "payment-due";
}

fn main() -> Result<ExitCode, Problem> {
    let options = Options::parse();
    if let Some(file) = options.place_in {
        place_by_sql(&file, options.orders)?;
        return Ok(ExitCode::SUCCESS);
    }
    let directory = std::env::temp_dir().join(format!("lars-shop-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let whole = keep_shop(&directory.join("shop.db"), options.orders)?;
    std::fs::remove_dir_all(directory)?;
    Ok(if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether all orders end as they should.
fn keep_shop(file: &Path, orders: u32) -> Result<bool, AnyError> {
    let (sender, expired) = channel();
    let path = file.to_owned();
    let durable = Durable::sqlite(file)
        .call_timeout(Duration::from_secs(60)) // however busy the machine is
        .handle(move |due: &Fired<PaymentDue>| expire(&path, due, &sender))
        .start()?;
    let mut connection = open(file)?;
    connection
        .execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT NOT NULL)")?;
    let mut other = Command::new(std::env::current_exe()?)
        .args(["--orders", &orders.to_string(), "--place-in"])
        .arg(file)
        .spawn()?;

    let timers = durable.timers();
    for _ in 0..orders {
        let transaction = begin(&mut connection)?;
        transaction.execute("INSERT INTO orders (state) VALUES ('placed')", [])?;
        let order = transaction.last_insert_rowid();
        let due = timers.schedule_once(PAYMENT, PaymentDue { order });
        due.key(format!("payment/{order}")).submit_in_file(&transaction)?;
        transaction.commit()?;
    }
    assert!(other.wait()?.success(), "the second program failed");
    // Two of three are paid, whoever placed them.
    for order in (1..=2 * i64::from(orders)).filter(|order| order % 3 != 0) {
        let transaction = begin(&mut connection)?;
        let paid = "UPDATE orders SET state = 'paid' WHERE id = ?1 AND state = 'placed'";
        // What has expired stays so.
        if transaction.execute(paid, [order])? == 1 {
            timers.cancel_in_file(&format!("payment/{order}"), &transaction)?;
        }
        transaction.commit()?;
    }
    let open_orders = "SELECT count(*) FROM orders WHERE state = 'placed'";
    while connection.query_row(open_orders, [], |row| row.get::<_, i64>(0))? > 0 {
        expired.recv_timeout(Duration::from_secs(60))?;
    }
    durable.close()?;
    report(&connection, orders)
}

/// Ends the run and the order in one transaction: whatever fails, an order expires once.
fn expire(
    file: &Path,
    due: &Fired<PaymentDue>,
    expired: &Sender<i64>,
) -> Result<(), Box<dyn std::error::Error>> {
    let order = due.payload().order;
    let mut connection = open(file)?;
    let transaction = begin(&mut connection)?;
    transaction.execute("UPDATE orders SET state = 'expired' WHERE id = ?1", [order])?;
    due.complete_in_file(&transaction)?;
    transaction.commit()?;
    let _ = expired.send(order);
    Ok(())
}

/// A program in any language could do this.
fn place_by_sql(file: &Path, orders: u32) -> Result<(), AnyError> {
    let mut connection = open(file)?;
    for _ in 0..orders {
        let transaction = begin(&mut connection)?;
        transaction.execute("INSERT INTO orders (state) VALUES ('placed')", [])?;
        let order = transaction.last_insert_rowid();
        transaction.execute(
            "INSERT INTO lars_schedule (handler, payload, delay, key)
             VALUES ('payment-due', json_object('order', ?1), ?2, 'payment/' || ?1)",
            params![order, PAYMENT.as_secs_f64()],
        )?;
        transaction.commit()?;
    }
    Ok(())
}

/// A connection of the shop's own: whoever finds the file busy waits.
fn open(file: &Path) -> Result<Connection, rusqlite::Error> {
    let connection = Connection::open(file)?;
    connection.busy_timeout(Duration::from_secs(60))?;
    Ok(connection)
}

/// Writes from the beginning, so it cannot find at its first write that it has read old rows.
fn begin(connection: &mut Connection) -> Result<Transaction<'_>, rusqlite::Error> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate)
}

fn report(connection: &Connection, orders: u32) -> Result<bool, AnyError> {
    let count = |text: &str| connection.query_row(text, [], |row| row.get::<_, i64>(0));
    let paid = count("SELECT count(*) FROM orders WHERE state = 'paid'")?;
    let expired = count("SELECT count(*) FROM orders WHERE state = 'expired'")?;
    let left = count("SELECT count(*) FROM lars_timer")?;
    println!("{paid} orders were paid, {expired} have expired, and {left} timers are left");
    Ok(paid + expired == 2 * i64::from(orders) && left == 0)
}
