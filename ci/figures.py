#!/usr/bin/env python3
"""The figures of docs/benchmarks.md and README.md, and the data behind them.

    python3 ci/figures.py            takes new tables into docs/data, and writes the short ones
    python3 ci/figures.py --check    fails if the pages are not what docs/data says

`compare page` writes all rows and columns between the marks of docs/benchmarks.md. Run this after
it: the tables go to docs/data, a file for each workload, and the page keeps a few rows and columns
(`SHORT`). The figures in short stand between `<!-- figures -->` and `<!-- end of figures -->`.
`ci/lint.sh` checks. It also refuses a time in nanoseconds anywhere else in README.md, because
nothing would keep that up to date.
"""

import csv
import io
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- figures -->\n", "<!-- end of figures -->"

OURS = ("lars-scheduler", "mini-actor")
# No timers, but measures of the machine and of the harness.
NO_PEERS = ("floor", "seg-queue")
POOL = "lars-scheduler-pool"
# What one of tokio's users would write.
TOKIO = ("tokio-sleep", "tokio-mpsc")

THREADS = {
    "W1": [f"W1, schedule: {n}" for n in ("1 producer", "2 producers", "4 producers")],
    "W2": [f"W2, schedule and cancel: {n}" for n in ("1 producer", "2 producers", "4 producers")],
    "W8": [f"W8, mix: {n}" for n in ("2 producers", "4 producers", "8 producers")],
    "W17": [f"W17, async: {n}" for n in ("1 thread", "2 threads", "4 threads")],
}

CAPACITY = "W13, capacity: the highest load with p99 of at most 5 ms and the producers on time"

# What, its tables, the column, the unit; and for README.md, if it has the row, what it is called
# there, and which of the tables it takes. Less is better in all but those of `MORE_IS_BETTER`.
ROWS = [
    ("schedule, 1 · 2 · 4 threads: the call", THREADS["W1"], "ns/op", "ns",
     "schedule, two threads: a call", 1),
    ("the same, until the timer is where it waits", THREADS["W1"], "settled", "ns"),
    ("schedule and cancel, 1 · 2 · 4 threads", THREADS["W2"], "ns/pair", "ns",
     "schedule and cancel, two threads", 1),
    ("a timeout renewed by cancelling and scheduling", ["W2b, request timeouts"], "ns/step", "ns"),
    ("a timeout renewed by moving it", ["W12, moving deadlines"], "ns/move", "ns"),
    ("schedule here, cancel on another thread", ["W9, cancelled by another thread"], "ns/timer",
     "ns"),
    ("a mix without a pause, 2 · 4 · 8 threads", THREADS["W8"], "ns/step", "ns"),
    ("two threads: the highest load with 99 of 100 at most 5 ms late (more is better)", [CAPACITY],
     "timers/s", "timers/s", "the highest load with 99 of 100 at most 5 ms late (more is better)",
     0),
    ("a million due at once: how late the last is", ["W3, burst"], "last late ms", "ms",
     "a million due at once: how late the last is", 0),
    ("the same beside a task of 10 ms", ["W11, a slow task beside a burst"], "last late ms", "ms"),
    ("50,000 a second, tick of 1 ms: lateness, median", ["W4, steady precision"], "p50 µs", "µs",
     "50,000 a second, tick of 1 ms: lateness, median", 0),
    ("the same: processor time of 5 s", ["W4, steady precision"], "CPU s", "s",
     "the same: processor time of 5 s", 0),
    ("ten thousand periodic ones, 100 ms: processor time of 5 s", ["W6, periodic"], "CPU s", "s"),
    ("ten thousand pending, nothing due: processor time of 5 s", ["W5, idle"], "CPU ms", "ms"),
    ("schedule, beside 10,000 · 100,000 · 10 million pending",
     [f"W7, scale, n = {n}" for n in ("10,000", "100,000", "10.0 M")], "ns/op", "ns"),
    ("2,000 threads, 1,000 timers each: the call", ["W14, many threads"], "ns/call", "ns"),
    ("the same: lateness of 99 in 100", ["W14, many threads"], "p99 ms", "ms"),
    ("memory of a pending timer", THREADS["W1"][:1], "bytes/timer", "bytes",
     "memory of a pending timer", 0),
    ("futures, 1 · 2 · 4 threads: timeout made, polled, dropped", THREADS["W17"],
     "CPU ns: made, polled, dropped", "ns", "a timeout of a future, two threads", 1),
    ("sleep moved and polled", THREADS["W17"], "moved, polled", "ns"),
    ("sleep polled", THREADS["W17"], "polled", "ns"),
    ("interval ticked", THREADS["W17"], "ticked", "ns"),
    ("actors: ping-pong, a round trip", ["A1, ping-pong"], "ns/round trip", "ns",
     "actors: ping-pong, a round trip", 0),
    ("actors: four threads to one, a message", ["A2, many to one: 4 producers"], "ns/message",
     "ns", "actors: four threads to one, a message", 0),
    ("actors: one thread to 10,000, a message", ["A4, fan of actors"], "ns/message", "ns",
     "actors: one thread to 10,000, a message", 0),
    ("actors: a scheduled send, the call", ["A3, scheduled sends"], "ns/call", "ns"),
    ("actors: a message that restarts a timer", ["A5, a timer restarted"], "ns/message", "ns"),
    ("actors: a spawn", ["A6, a million actors"], "ns/spawn", "ns", "actors: a spawn", 0),
    ("actors: memory of an idle one", ["A6, a million actors"], "bytes/actor", "bytes"),
]
MORE_IS_BETTER = {CAPACITY}


def of(workload, cases, column):
    return [(f"{workload}: {case}", column, case) for case in cases]


def mix(case):
    title = f"W8, mix: {case}, n = 60.0 M"
    return [(title, "ns/step", f"{case}: ns/step"), (title, "p99 µs", "p99 µs")]


def load(timers, column):
    return (f"W13, load curve: {timers} timers/s", column, f"{timers}: {column}")


PRODUCERS = ("1 producer", "2 producers", "4 producers")
# The workloads, and what the page keeps of each: a table, its column, and the head of that column
# here. The first one decides which peers are kept. Where nothing is kept, the figures in short have
# the one that matters.
SHORT = dict.fromkeys(
    ("W1 W2 W2b W3 W4 W5 W6 W7 W8 W9 W11 W12 W13 W14 W17 A1 A2 A3 A4 A5 A6").split(), []
) | {
    "W1": of("W1, schedule", PRODUCERS, "ns/op") + [
        ("W1, schedule: 1 producer", name, name) for name in ("settled", "warm", "bytes/timer")
    ],
    "W2": of("W2, schedule and cancel", PRODUCERS, "ns/pair") + [
        ("W2, schedule and cancel: 1 producer", "bytes left", "bytes left")
    ],
    "W3": [("W3, burst", name, name) for name in ("last late ms", "first late ms", "fired/s")],
    "W4": [
        ("W4, steady precision", name, name) for name in ("p50 µs", "p99 µs", "max µs", "CPU s")
    ],
    "W8": mix("2 producers") + mix("4 producers") + mix("8 producers") + [
        ("W8, mix: 2 producers, n = 60.0 M", "MiB at the peak", "2 producers: MiB at the peak")
    ],
    "W11": [
        ("W11, a slow task beside a burst", name, name)
        for name in ("last late ms", "p99 ms", "slow task late ms")
    ],
    "W13": [(CAPACITY, "timers/s", "capacity, timers/s")]
    + [load(timers, "p99 µs") for timers in ("1.0 M", "4.0 M", "8.0 M")]
    + [load("10.0 M", "timers/s")],
    "W14": [("W14, many threads", name, name) for name in ("ns/call", "p99 ms", "max ms", "CPU s")],
    "W17": of("W17, async", ("1 thread", "2 threads", "4 threads"), "CPU ns: made, polled, dropped")
    + [("W17, async: 1 thread", name, name) for name in ("moved, polled", "polled", "ticked")],
    "A3": [("A3, scheduled sends", name, name) for name in ("ns/call", "p99 µs", "CPU s")],
    "A5": [
        ("A5, a timer restarted", name, name) for name in ("ns/message", "CPU ns", "p99 µs")
    ],
    "A6": [
        ("A6, a million actors", name, name)
        for name in ("ns/spawn", "ns/first message", "ns/end", "bytes/actor")
    ],
}


def value(cell):
    """The number at the start of a cell: `79.7 (76.3–79.9)`, `21,567`, `1.0 M`; None for none."""
    match = re.match(r"(-?[\d,]+(?:\.\d+)?)( M)?", cell)
    if not match:
        return None
    return float(match.group(1).replace(",", "")) * (1e6 if match.group(2) else 1)


def block(workload):
    """What stands between the marks of a workload."""
    return re.compile(rf"(<!-- compare: {workload} -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def data(workload):
    return ROOT / "docs" / "data" / f"{workload.lower()}.csv"


def take(page):
    """Moves the full tables that `compare page` wrote into docs/data."""
    for workload in SHORT:
        rows, columns = [], ["table", "peer"]
        pattern = r"^\*\*(.*?)\*\*\n\n((?:\|.*\n)+)"
        text = block(workload).search(page).group(2)
        for title, table in re.findall(pattern, text, re.MULTILINE):
            head, _, *lines = [
                [cell.strip() for cell in line.strip().strip("|").split("|")]
                for line in table.splitlines()
            ]
            columns += [name for name in head if name not in columns]
            rows += [{"table": title} | dict(zip(head, line)) for line in lines]
        if rows:
            out = io.StringIO()
            writer = csv.DictWriter(out, columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
            data(workload).write_text(out.getvalue())


def tables():
    """The rows of each table, by its title with and without the size."""
    found = {}
    for workload in SHORT:
        own = {}
        with data(workload).open(newline="") as file:
            for row in csv.DictReader(file):
                own.setdefault(row["table"], []).append(row)
        for title, rows in own.items():
            # Of several sizes the last one remains under the short title.
            found[title] = found[title.partition(", n = ")[0]] = rows
    return found


def kept(rows, column, best):
    """Ours, the floor, tokio's, who is better than ours, and the two best others."""
    figures = [(cell(row, column), row["peer"]) for row in rows if "(early)" not in row["peer"]]
    ours = next((figure for figure, peer in figures if peer in OURS), None)
    always = {p for _, p in figures if p.startswith(OURS) or p in (*TOKIO, "floor")}
    others = [(f, p) for f, p in figures if f is not None and p not in always | set(NO_PEERS)]
    others.sort(reverse=best is max)
    better = {peer for figure, peer in others if ours is not None and best(figure, ours) != ours}
    return always | better | {peer for _, peer in others[:2]}


def short(found, workload):
    link = f"[{workload}: all rows and columns](data/{data(workload).name})\n"
    if not SHORT[workload]:
        return link
    title, column, _ = SHORT[workload][0]
    peers = kept(found[title], column, max if title in MORE_IS_BETTER else min)
    heads = [head for *_, head in SHORT[workload]]
    lines = [f"| peer | {' | '.join(heads)} |", f"| --- |{' --: |' * len(heads)}"]
    for peer in (row["peer"] for row in found[title] if row["peer"] in peers):
        cells = [
            next((row[column] for row in found[title] if row["peer"] == peer), "")
            for title, column, _ in SHORT[workload]
        ]
        lines.append(f"| {peer} | {' | '.join(re.sub(r' [(].*', '', c) or '–' for c in cells)} |")
    return "\n".join(lines) + f"\n\n{link}"


def shortened(page, found):
    """The page with the short tables between its marks; the plots stay."""
    for workload in SHORT:
        begin, old, end = block(workload).search(page).groups()
        plots = "".join(line + "\n\n" for line in old.splitlines() if line.startswith("!["))
        new = begin + plots + short(found, workload) + end
        page = block(workload).sub(lambda _, new=new: new, page)
    return page


def cell(row, column):
    return value(row.get(column, ""))


def figures_of(table, column, best):
    """Ours by default and inline, tokio's, and the best other with its name."""
    own = dict.fromkeys(("default", "inline", "tokio"))
    others = []
    for row in table:
        peer, figure = row["peer"], cell(row, column)
        if figure is None or peer in NO_PEERS or "(early)" in peer:
            continue
        if peer in TOKIO:
            own["tokio"] = figure
        elif peer in (POOL, "mini-actor"):
            own["default"] = figure
        elif peer in OURS:
            own["inline"] = figure
        elif not peer.startswith(OURS):
            others.append((figure, peer))
    # Where there is no closure to run, as with futures, the executor makes no difference.
    if own["default"] is None:
        own["default"], own["inline"] = own["inline"], None
    return *own.values(), best(others, default=None)


def digits(number):
    if number >= 1e6:
        return f"{number / 1e6:.1f}".removesuffix(".0") + " M"
    if number >= 1000:
        return f"{number:,.0f}"
    return f"{number:.0f}" if number >= 10 else f"{number:.2f}".rstrip("0").rstrip(".")


def line(found, what, titles, column, unit):
    cases = [
        figures_of(found[title], column, max if title in MORE_IS_BETTER else min)
        for title in titles
        if title in found
    ]
    if not cases:
        return None

    def all_of(figures):
        text = " · ".join("–" if figure is None else digits(figure) for figure in figures)
        return "–" if set(text) <= set("– ·") else text

    default, inline, tokio, best = zip(*cases)
    names = [it[1] if it else "–" for it in best]
    if len(set(names)) == 1:
        best = f"{names[0]}: {all_of(it and it[0] for it in best)}" if best[0] else "–"
    else:
        best = " · ".join(f"{it[1]}: {digits(it[0])}" if it else "–" for it in best)
    return (
        f"| {what} | {all_of(default)} | {all_of(inline)} | {all_of(tokio)} | {best} | {unit} |"
    )


def in_short(found, readme):
    lines = []
    for what, titles, column, unit, *in_readme in ROWS:
        if not readme:
            lines.append(line(found, what, titles, column, unit))
        elif in_readme:
            name, case = in_readme
            lines.append(line(found, name, titles[case : case + 1], column, unit))
    head = "| | ours, default | ours, inline | tokio | the best other | |\n"
    head += "|---|--:|--:|--:|---|---|\n"
    return head + "\n".join(filter(None, lines)) + "\n"


def machine(page):
    """On which machine, and at which commit, most of the page's tables were measured."""
    rows = dict(re.findall(r"^\| (processor|commit) \| (.*) \|$", page, re.MULTILINE))
    return (
        f"Most were measured on an {rows['processor']},\n"
        f"at commit {rows['commit']}; a row is always of one run\n"
        "([where](docs/benchmarks.md#where)).\n"
    )


def main():
    check = "--check" in sys.argv[1:]
    path = ROOT / "docs/benchmarks.md"
    benchmarks = path.read_text()
    if not check:
        take(benchmarks)
    found = tables()
    problems = []
    if check and shortened(benchmarks, found) != benchmarks:
        problems.append("docs/benchmarks.md: its tables are not those of docs/data")
    elif not check:
        path.write_text(shortened(benchmarks, found))
    for name in ("README.md", "docs/benchmarks.md"):
        path = ROOT / name
        page = path.read_text()
        before, begin, rest = page.partition(BEGIN)
        old, end, after = rest.partition(END)
        if not (begin and end):
            problems.append(f"{name}: has no `{BEGIN.strip()}` with an `{END}` after it")
            continue
        readme = name == "README.md"
        new = f"\n{in_short(found, readme)}\n" + readme * f"{machine(benchmarks)}\n"
        if check and old != new:
            problems.append(f"{name}: its figures in short are not those of docs/data")
        elif not check:
            path.write_text(before + begin + new + end + after)
        if readme:
            for loose in re.findall(r"\d[\d.]* (?:to [\d.]+ )?ns\b", before + after):
                problems.append(f"{name}: has the figure `{loose}` outside of its marks")
    if check and problems:
        problems.append("`python3 ci/figures.py` writes them")
    for problem in problems:
        print(problem)
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
