//! What is told of each workload, and how figures are written.

use crate::record::Workload;

/// Which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    Less,
    More,
}

/// One figure of a workload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    pub(crate) key: &'static str,
    pub(crate) title: &'static str,
    pub(crate) better: Better,
}

fn less(key: &'static str, title: &'static str) -> Column {
    Column { key, title, better: Better::Less }
}

fn more(key: &'static str, title: &'static str) -> Column {
    Column { key, title, better: Better::More }
}

/// Those of a workload after which memory is looked at.
fn settling(title: &'static str) -> Vec<Column> {
    vec![
        less("ns", title),
        less("settled_ns", "settled"),
        less("left_bytes", "bytes left"),
        less("faults", "faults"),
    ]
}

/// The figures of a workload, the most important one first: ratios are taken of that.
pub(crate) fn columns(workload: Workload) -> Vec<Column> {
    match workload {
        Workload::W1 | Workload::W7 => vec![
            less("ns", "ns/op"),
            less("settled_ns", "settled"),
            less("warm_ns", "warm"),
            less("warm_settled_ns", "warm settled"),
            less("backlog_ms", "backlog ms"),
            less("bytes", "bytes/timer"),
            less("with_handle_bytes", "with handle"),
            less("faults", "faults"),
            less("warm_faults", "warm faults"),
            less("fault_ns", "ns/fault"),
        ],
        Workload::W2 => settling("ns/pair"),
        Workload::W2b => settling("ns/step"),
        Workload::W3 => vec![
            less("last_late_ms", "last late ms"),
            less("first_late_ms", "first late ms"),
            more("per_second", "fired/s"),
            less("early", "early"),
            less("faults", "faults"),
        ],
        Workload::W4 => vec![
            less("p50_us", "p50 µs"),
            less("p99_us", "p99 µs"),
            less("p99.9_us", "p99.9 µs"),
            less("p100_us", "max µs"),
            less("early", "early"),
            less("most_early_us", "earliest by µs"),
            less("cpu_s", "CPU s"),
        ],
        Workload::W5 => vec![less("cpu_ms", "CPU ms"), less("switches", "wake-ups")],
        Workload::W6 => vec![less("cpu_s", "CPU s"), more("runs", "runs/expected")],
        Workload::W8 => vec![
            less("ns", "ns/step"),
            less("p50_us", "p50 µs"),
            less("p99_us", "p99 µs"),
            less("p100_us", "max µs"),
            less("early", "early"),
            less("after_3s", "not fired in 3 s"),
            less("drained_ms", "all fired after ms"),
            less("end_mib", "MiB at the end"),
            less("peak_mib", "MiB at the peak"),
            less("cpu_s", "CPU s"),
        ],
        Workload::W9 => settling("ns/timer"),
        Workload::W11 => vec![
            less("last_late_ms", "last late ms"),
            less("p99_late_ms", "p99 ms"),
            less("first_late_ms", "first late ms"),
            less("slow_late_ms", "slow task late ms"),
            less("early", "early"),
            less("faults", "faults"),
        ],
        Workload::W12 => settling("ns/move"),
        Workload::W13 => vec![
            less("p99_us", "p99 µs"),
            less("p50_us", "p50 µs"),
            less("p100_us", "max µs"),
            less("early", "early"),
            more("on_time", "producers on time"),
            less("lag_p99_ms", "their p99 ms"),
            more("per_second", "timers/s"),
            less("after_3s", "not fired in 3 s"),
            less("peak_mib", "MiB at the peak"),
            less("cpu_s", "CPU s"),
        ],
        Workload::W14 => vec![
            less("ns", "ns/call"),
            less("p99_ms", "p99 ms"),
            less("p50_ms", "p50 ms"),
            less("p100_ms", "max ms"),
            less("early", "early"),
            less("cpu_s", "CPU s"),
        ],
        Workload::W17 => vec![
            less("ns", "CPU ns: made, polled, dropped"),
            less("reset_ns", "moved, polled"),
            less("poll_ns", "polled"),
            less("tick_ns", "ticked"),
        ],
        Workload::A1 => vec![less("ns", "ns/round trip"), less("faults", "faults")],
        Workload::A2 | Workload::A4 => vec![
            less("ns", "ns/message"),
            // The sender's part of it.
            less("send_ns", "ns/send"),
            less("faults", "faults"),
        ],
        Workload::A5 => vec![
            less("ns", "ns/message"),
            // Of all threads: where the sender is the slowest, the time does not show the timers.
            less("cpu_ns", "CPU ns"),
            less("send_ns", "ns/send"),
            // Of the timers, at the end.
            less("p99_us", "p99 µs"),
            less("p100_us", "max µs"),
            less("early", "early"),
            less("faults", "faults"),
        ],
        Workload::A6 => vec![
            less("ns", "ns/spawn"),
            less("first_ns", "ns/first message"),
            less("end_ns", "ns/end"),
            less("bytes", "bytes/actor"),
            less("told_bytes", "bytes, told once"),
            less("faults", "faults"),
        ],
        Workload::A3 => vec![
            less("ns", "ns/call"),
            less("p50_us", "p50 µs"),
            less("p99_us", "p99 µs"),
            less("p100_us", "max µs"),
            less("early", "early"),
            less("cpu_s", "CPU s"),
            less("faults", "faults"),
        ],
    }
}

/// What a workload is called.
pub(crate) fn title(workload: Workload) -> &'static str {
    match workload {
        Workload::W1 => "W1, schedule",
        Workload::W2 => "W2, schedule and cancel",
        Workload::W2b => "W2b, request timeouts",
        Workload::W3 => "W3, burst",
        Workload::W4 => "W4, steady precision",
        Workload::W5 => "W5, idle",
        Workload::W6 => "W6, periodic",
        Workload::W7 => "W7, scale",
        Workload::W8 => "W8, mix",
        Workload::W9 => "W9, cancelled by another thread",
        Workload::W11 => "W11, a slow task beside a burst",
        Workload::W12 => "W12, moving deadlines",
        Workload::W13 => "W13, load curve",
        Workload::W14 => "W14, many threads",
        Workload::W17 => "W17, async",
        Workload::A1 => "A1, ping-pong",
        Workload::A2 => "A2, many to one",
        Workload::A3 => "A3, scheduled sends",
        Workload::A4 => "A4, fan of actors",
        Workload::A5 => "A5, a timer restarted",
        Workload::A6 => "A6, a million actors",
    }
}

/// Three digits are as many as mean something.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    if size >= 1e6 {
        format!("{:.1} M", value / 1e6)
    } else if size >= 1e4 {
        let thousands = (value / 1e3).trunc();
        format!("{thousands},{:03}", (size % 1e3).trunc())
    } else if size >= 100.0 || value.fract() == 0.0 {
        format!("{value:.0}")
    } else if size >= 10.0 {
        format!("{value:.1}")
    } else if size >= 0.1 {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn figures_are_written_with_as_many_digits_as_mean_something() {
        for (value, text) in [
            (0.0, "0"),
            (0.0134, "0.013"),
            (0.76, "0.76"),
            (5.32, "5.32"),
            (-5.32, "-5.32"),
            (57.96, "58.0"),
            (123.4, "123"),
            (9_999.0, "9999"),
            (10_007.9, "10,007"),
            (-10_007.0, "-10,007"),
            (2_500_000.0, "2.5 M"),
        ] {
            assert_eq!(number(value), text);
        }
    }
}
