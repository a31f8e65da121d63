#!/usr/bin/env python3
"""Which tests hold which promise: docs/promises.md, from docs/data/promises.toml.

    python3 ci/promises.py            writes the page
    python3 ci/promises.py WORD...    prints where the tests are whose promise has these words

`ci/tidy.py` calls the check: every name is a test of the source, none stands twice, and the page
is what the data say. The CSV files in docs/data may name tests, too, and those have to exist. Tests
are found by name, in whatever file they are.
"""

import collections
import pathlib
import re
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = "docs/data/promises.toml"
PAGE = "docs/promises.md"

HEAD = """# Promises and their tests

Each promise links to the page that explains it, each test to its file. A test that drives two
promises stands with the first. Further tests hold all promises of a crate at once: sequences
against a model, races that count every task, the models of `ci/loom.sh`, the simulation of durable
timers ([testing](testing.md)).

This page is generated. Change [`promises.toml`](data/promises.toml) and run
`python3 ci/promises.py`.
"""

TEST = re.compile(
    r"#\[(?:\w+::)*test\b[^\]]*\](?:\s*(?:#\[[^\]]*\]|//[^\n]*))*"
    r"\s*(?:pub(?:\(\w+\))? )?(?:async )?fn (\w+)"
)


def tests():
    """Where each test is: its files and lines, by its name."""
    found = collections.defaultdict(list)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.rs"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if not (ROOT / name).exists():
            continue
        code = (ROOT / name).read_text()
        for match in TEST.finditer(code):
            found[match.group(1)].append((name, code.count("\n", 0, match.end()) + 1))
    return found


def promises():
    """(page, anchor, promise, names of tests), in the order of the file."""
    for section, rows in tomllib.loads((ROOT / DATA).read_text()).items():
        page, _, anchor = section.partition("#")
        for promise, names in rows.items():
            yield page, anchor, promise, names


def page(found):
    lines, last = [HEAD.rstrip()], None
    for name, anchor, promise, names in promises():
        if name != last:
            title = (ROOT / "docs" / name).read_text().partition("\n")[0].lstrip("# ")
            lines += ["", f"## {title}", "", "| promise | tests |", "|---|---|"]
            last = name
        cells = []
        for test in names:
            for number, (path, _) in enumerate(found.get(test, [])):
                cells.append(f"[{test if number == 0 else 'and'}](../{path})")
        lines.append(f"| [{promise}]({name}#{anchor}) | {', '.join(cells)} |")
    return "\n".join(lines) + "\n"


def problems():
    """What is wrong with the data, or else with the page. (`ci/tidy.py` looks at the links.)"""
    found = tests()
    named = collections.Counter(test for *_, names in promises() for test in names)
    wrong = [f"{DATA}: names the test `{t}`, which does not exist" for t in named if t not in found]
    wrong += [f"{DATA}: names the test `{t}` {n} times" for t, n in named.items() if n > 1]
    for table in sorted((ROOT / "docs/data").glob("*.csv")):
        for test in re.findall(r"`([a-z0-9]+(?:_[a-z0-9]+){3,})`", table.read_text()):
            if test not in found:
                wrong.append(f"{table.name}: names the test `{test}`, which does not exist")
    if not wrong and (ROOT / PAGE).read_text() != page(found):
        wrong.append(f"{PAGE}: is not what {DATA} says; `python3 ci/promises.py` writes it")
    return wrong


def main():
    found, words = tests(), sys.argv[1:]
    if not words:
        (ROOT / PAGE).write_text(page(found))
    for *_, promise, names in promises() if words else ():
        if all(word.lower() in promise.lower() for word in words):
            print(promise)
            for test in names:
                for path, line in found.get(test, [("not there", 0)]):
                    print(f"  {path}:{line}: {test}")


if __name__ == "__main__":
    main()
