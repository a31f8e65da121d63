#!/usr/bin/env python3
"""The figures in short, taken from the tables of docs/benchmarks.md.

    python3 ci/figures.py            writes them into README.md and docs/benchmarks.md
    python3 ci/figures.py --check    fails if they are not what the tables say

They stand between `<!-- figures -->` and `<!-- end of figures -->`. `compare page` writes the
tables; run this after it. `ci/lint.sh` checks. It also refuses a time in nanoseconds anywhere else
in README.md, because nothing would keep that up to date.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- figures -->\n", "<!-- end of figures -->"

OURS = ("lars-scheduler", "mini-actor")
# No timers, but measures of the machine and of the harness.
NO_PEERS = ("floor", "seg-queue")
# What one of tokio's users would write.
TOKIO = ("tokio-sleep", "tokio-mpsc")

THREADS = {
    "W1": [f"W1, schedule: {n}" for n in ("1 producer", "2 producers", "4 producers")],
    "W2": [f"W2, schedule and cancel: {n}" for n in ("1 producer", "2 producers", "4 producers")],
    "W8": [f"W8, mix: {n}" for n in ("2 producers", "4 producers", "8 producers")],
    "W17": [f"W17, async: {n}" for n in ("1 thread", "2 threads", "4 threads")],
}

CAPACITY = "W13, capacity: the highest load with p99 of at most 5 ms and the producers on time"

# What, its tables, the column, the unit, and whether README.md has it. Less is better in all but
# those of `MORE_IS_BETTER`.
ROWS = [
    ("schedule, 1 · 2 · 4 threads: the call", THREADS["W1"], "ns/op", "ns", True),
    ("the same, until the timer is where it waits", THREADS["W1"], "settled", "ns", True),
    ("schedule and cancel, 1 · 2 · 4 threads", THREADS["W2"], "ns/pair", "ns", True),
    ("a timeout renewed by cancelling and scheduling", ["W2b, request timeouts"], "ns/step", "ns",
     False),
    ("a timeout renewed by moving it", ["W12, moving deadlines"], "ns/move", "ns", True),
    ("schedule here, cancel on another thread", ["W9, cancelled by another thread"], "ns/timer",
     "ns", False),
    ("a mix without a pause, 2 · 4 · 8 threads", THREADS["W8"], "ns/step", "ns", False),
    ("two threads: the highest load with 99 of 100 at most 5 ms late (more is better)", [CAPACITY],
     "timers/s", "timers/s", True),
    ("a million due at once: how late the last is", ["W3, burst"], "last late ms", "ms", True),
    ("50,000 a second, tick of 1 ms: lateness, median", ["W4, steady precision"], "p50 µs", "µs",
     False),
    ("the same: processor time of 5 s", ["W4, steady precision"], "CPU s", "s", False),
    ("memory of a pending timer", THREADS["W1"][:1], "bytes/timer", "bytes", True),
    ("futures, 1 · 2 · 4 threads: timeout made, polled, dropped", THREADS["W17"],
     "CPU ns: made, polled, dropped", "ns", True),
    ("sleep moved and polled", THREADS["W17"], "moved, polled", "ns", True),
    ("sleep polled", THREADS["W17"], "polled", "ns", False),
    ("interval ticked", THREADS["W17"], "ticked", "ns", False),
    ("actors: ping-pong, a round trip", ["A1, ping-pong"], "ns/round trip", "ns", True),
    ("actors: four threads to one, a message", ["A2, many to one: 4 producers"], "ns/message",
     "ns", True),
    ("actors: one thread to 10,000, a message", ["A4, fan of actors"], "ns/message", "ns", True),
    ("actors: a scheduled send, the call", ["A3, scheduled sends"], "ns/call", "ns", False),
    ("actors: a spawn", ["A6, a million actors"], "ns/spawn", "ns", False),
    ("actors: memory of an idle one", ["A6, a million actors"], "bytes/actor", "bytes", False),
]
MORE_IS_BETTER = {CAPACITY}


def value(cell):
    """The number at the start of a cell: `79.7 (76.3–79.9)`, `21,567`, `1.0 M`; None for none."""
    match = re.match(r"(-?[\d,]+(?:\.\d+)?)( M)?", cell)
    if not match:
        return None
    return float(match.group(1).replace(",", "")) * (1e6 if match.group(2) else 1)


def tables(page):
    """The rows of each table, as dictionaries, by its title without the size."""
    found = {}
    # Of several sizes with one title (W7) the last one remains; none of them is used here.
    pattern = r"^\*\*(.*?)(?:, n = [^*]*)?\*\*\n\n((?:\|.*\n)+)"
    for title, text in re.findall(pattern, page, re.MULTILINE):
        lines = [
            [cell.strip() for cell in line.strip().strip("|").split("|")]
            for line in text.splitlines()
        ]
        found[title] = [dict(zip(lines[0], line)) for line in lines[2:]]
    return found


def cell(row, column):
    return value(row.get(column, ""))


def figures_of(table, column, best):
    """Ours, the best other with its name, and tokio's; None for what is missing."""
    ours = next((cell(row, column) for row in table if row["peer"] in OURS), None)
    others = []
    tokio = None
    for row in table:
        peer, figure = row["peer"], cell(row, column)
        if figure is None or peer in NO_PEERS or peer.startswith(OURS) or "(early)" in peer:
            continue
        others.append((figure, peer))
        if peer in TOKIO:
            tokio = figure
    return ours, best(others, default=None), tokio


def digits(number):
    if number >= 1e6:
        return f"{number / 1e6:.1f}".removesuffix(".0") + " M"
    if number >= 1000:
        return f"{number:,.0f}"
    return f"{number:.0f}" if number >= 10 else f"{number:.2f}".rstrip("0").rstrip(".")


def times(figure, ours):
    if figure is None or not ours:
        return "–"
    ratio = figure / ours
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}" if ratio >= 2 else f"{ratio:.2f}"


def line(found, what, titles, column, unit):
    cases = [
        figures_of(found[title], column, max if title in MORE_IS_BETTER else min)
        for title in titles
        if title in found
    ]
    if not cases or any(ours is None for ours, _, _ in cases):
        return None
    names = [best[1] if best else "–" for _, best, _ in cases]
    ratios = [times(best and best[0], ours) for ours, best, _ in cases]
    if len(set(names)) == 1:
        best = f"{names[0]} {' · '.join(ratios)}"
    else:
        best = " · ".join(f"{name} {ratio}" for name, ratio in zip(names, ratios))
    tokio = [times(tokio, ours) for ours, _, tokio in cases]
    ours = " · ".join(digits(ours) for ours, _, _ in cases)
    tokio = "–" if set(tokio) == {"–"} else " · ".join(tokio)
    return f"| {what} | {ours} {unit} | {best} | {tokio} |"


def in_short(found, readme):
    lines = [
        line(found, *spec) for *spec, in_readme in ROWS if in_readme or not readme
    ]
    head = "| | ours | the best other, × ours | tokio, × ours |\n|---|--:|---|--:|\n"
    return head + "\n".join(filter(None, lines)) + "\n"


def main():
    check = "--check" in sys.argv[1:]
    found = tables((ROOT / "docs/benchmarks.md").read_text())
    problems = []
    for name in ("README.md", "docs/benchmarks.md"):
        path = ROOT / name
        page = path.read_text()
        before, begin, rest = page.partition(BEGIN)
        old, end, after = rest.partition(END)
        if not (begin and end):
            problems.append(f"{name}: has no `{BEGIN.strip()}` with an `{END}` after it")
            continue
        new = f"\n{in_short(found, readme=name == 'README.md')}\n"
        if check and old != new:
            problems.append(
                f"{name}: its figures in short are not those of the tables of docs/benchmarks.md;"
                " `python3 ci/figures.py` writes them"
            )
        elif not check:
            path.write_text(before + begin + new + end + after)
        if name == "README.md":
            for loose in re.findall(r"\d[\d.]* (?:to [\d.]+ )?ns\b", before + after):
                problems.append(f"{name}: has the figure `{loose}` outside of its marks")
    for problem in problems:
        print(problem)
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
