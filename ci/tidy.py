#!/usr/bin/env python3
"""Rules of this tree that neither rustfmt nor clippy knows.

- Only src/sync.rs of a crate, and what is below it, names the primitives of std, parking_lot, crossbeam's parker, loom
  or shuttle. (Clippy refuses the types by name; this also sees paths, and loom's.)
- The modules of a crate use each other in one direction: each `use crate::` points at a module that stands
  above in lib.rs.
- Every test that is ignored, and every TODO, says why.
- Every test that docs/semantics.md and docs/actors.md name exists.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CRATES = ["lars-scheduler", "mini-actor"]

PRIMITIVES = re.compile(
    r"\b(std::sync::(atomic|Mutex|Condvar|RwLock)|parking_lot::|crossbeam_utils::sync|loom::(sync|cell)|\bshuttle::)"
)

problems = []


def code_of(path):
    """The file without comments and without its tests."""
    lines = []
    for line in path.read_text().splitlines():
        if re.match(r"\s*#\[cfg\((all\()?test", line) and "mod" not in line:
            lines.append("#CUT")
            continue
        lines.append(re.sub(r"//.*", "", line))
    text = "\n".join(lines)
    # Tests stand at the end of a file.
    return re.split(r"#CUT\s*\n\s*mod \w+ \{", text)[0].replace("#CUT", "")


for crate in CRATES:
    src = ROOT / crate / "src"
    order = re.findall(r"^(?:pub )?mod (\w+);", (src / "lib.rs").read_text(), re.MULTILINE)
    for path in sorted(src.rglob("*.rs")):
        parts = path.relative_to(src).with_suffix("").parts
        name = path.relative_to(ROOT)
        if parts[0] in ("lib", "sync", "models", "shuttles") or parts[-1] == "tests":
            continue
        code = code_of(path)
        for match in PRIMITIVES.finditer(code):
            problems.append(f"{name}: names {match.group(0)}, which only src/sync.rs may")
        own = order.index(parts[0])
        for used in set(re.findall(r"\bcrate::(\w+)", code)):
            if used in order and order.index(used) > own:
                problems.append(f"{name}: uses `{used}`, which stands below `{parts[0]}` in lib.rs")

for path in ROOT.rglob("*.rs"):
    if "target" in path.relative_to(ROOT).parts:
        continue
    for number, line in enumerate(path.read_text().splitlines(), 1):
        where = f"{path.relative_to(ROOT)}:{number}"
        if re.search(r"#\[ignore\]", line):
            problems.append(f"{where}: an ignored test without a reason")
        if re.search(r"\b(TODO|FIXME)\b(?!\()", line):
            problems.append(f"{where}: a TODO without a reason in parentheses")

tests = set()
for crate in CRATES:
    for path in (ROOT / crate).rglob("*.rs"):
        tests.update(re.findall(r"\bfn (\w+)\(", path.read_text()))
for page in (ROOT / "docs" / "semantics.md", ROOT / "docs" / "actors.md"):
    for name in re.findall(r"`([a-z0-9]+(?:_[a-z0-9]+){3,})`", page.read_text()):
        if name not in tests:
            problems.append(f"{page.relative_to(ROOT)}: names the test `{name}`, which does not exist")

for problem in problems:
    print(problem)
sys.exit(bool(problems))
