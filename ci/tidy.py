#!/usr/bin/env python3
"""Rules of this tree that neither rustfmt nor clippy knows.

- Only src/sync.rs of a crate, and what is below it, names the primitives of std, parking_lot,
  crossbeam's parker, loom or shuttle. (Clippy refuses the types by name; this also sees paths,
  and loom's.)
- The modules of a crate use each other in one direction, at every level: each `crate::` or
  `super::` path points at a module that is declared above the user's own, or above the folder that
  the user is in. A name that lib.rs re-exports counts as the module it comes from.
- Only src/time.rs of lars-durable reads the wall clock.
- Every test that is ignored, and every TODO, says why.
- Every test that docs/data/promises.toml names exists, and stands there once; docs/promises.md is
  what `ci/promises.py` makes of it.
- No line of Rust, Python, shell, TOML or Markdown is longer than 100 columns. Rows of tables may
  be.
- Every path in the table "Where do I change …?" of docs/architecture.md exists.
- Every package has the licences, as copies (a link is lost on some systems), and tells docs.rs its
  features. The code in its README is whole: what hidden lines hold, most readers would see.
- Every link from one page to a file or to a heading leads somewhere, and docs/SUMMARY.md lists
  every page below docs.
"""

import pathlib
import re
import subprocess
import sys

# Python would leave its cache of the module in the tree.
sys.dont_write_bytecode = True
import promises

ROOT = pathlib.Path(__file__).resolve().parent.parent
CRATES = [
    "lars-base",
    "lars-scheduler",
    "lars-jobs",
    "lars-bridges",
    "mini-actor",
    "lars-durable",
    "lars-top",
    "lars-web",
]

PRIMITIVES = re.compile(
    r"\b(std::sync::(atomic|Mutex|Condvar|RwLock)|parking_lot::|crossbeam_utils::sync"
    r"|loom::(sync|cell)|\bshuttle::)"
)

WIDTH = 100
WIDTH_HOLDS_IN = ("*.rs", "*.py", "*.sh", "*.toml", "*.md", ".ci/run")
# A row of a table, an address, a string without a space.
UNBREAKABLE = re.compile(r"^\s*((//[/!]?|#) *)?\||https?://|\"[^\s\"]{60,}\"")

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


def modules_in(path):
    """The modules that a file declares, in order."""
    return re.findall(r"^(?:pub(?:\(crate\))? )?mod (\w+);", path.read_text(), re.MULTILINE)


def re_exports(path):
    """Which module each name that lib.rs re-exports comes from."""
    found = {}
    for module, names in re.findall(
        r"^pub use self::([\w:]+?)::(\w+|\{[^}]*\});", path.read_text(), re.MULTILINE
    ):
        for name in re.findall(r"\w+", names):
            found[name] = module.split("::") + [name]
    return found


def paths_in(code, own):
    """Every `crate::` or `super::` path, from the root; takes one level of braces apart."""
    path = r"\b(crate|super(?:::super)*)::(\{[^}]*\}|[\w:]+(?:\{[^}]*\})?)"
    for base, tail in re.findall(path, code):
        prefix = [] if base == "crate" else own[: -base.count("super")]
        first, brace, group = tail.partition("{")
        first = [name for name in first.split("::") if name]
        if brace:
            for name in re.findall(r"(?:^|,)\s*(\w+)", group.rstrip("}")):
                yield prefix + first + [name]
        else:
            yield prefix + first


def below(own, used, inside):
    """The two modules of one parent of which the user's own comes first, if there are such."""
    for level, (mine, other) in enumerate(zip(own, used)):
        if mine != other:
            order = inside(own[:level])
            if mine in order and other in order and order.index(other) > order.index(mine):
                return other, mine
            return None
    return None


for crate in CRATES:
    src = ROOT / crate / "src"

    def inside(parent, src=src):
        path = src.joinpath(*parent).with_suffix(".rs") if parent else src / "lib.rs"
        return modules_in(path) if path.exists() else []

    exported = re_exports(src / "lib.rs")
    for path in sorted(src.rglob("*.rs")):
        own = list(path.relative_to(src).with_suffix("").parts)
        name = path.relative_to(ROOT)
        if own[0] in ("lib", "sync", "tests", "proof") or own[-1] in ("tests", "models"):
            continue
        code = code_of(path)
        for match in PRIMITIVES.finditer(code):
            problems.append(f"{name}: names {match.group(0)}, which only src/sync.rs may")
        if crate == "lars-durable" and own != ["time"] and "SystemTime::now" in code:
            problems.append(f"{name}: reads the wall clock, which only src/time.rs may")
        for used in paths_in(code, own):
            used = exported.get(used[0], used) if used else used
            wrong = below(own, used, inside)
            if wrong:
                problems.append(f"{name}: uses `{wrong[0]}`, which stands below `{wrong[1]}`")

for path in ROOT.rglob("*.rs"):
    if "target" in path.relative_to(ROOT).parts:
        continue
    for number, line in enumerate(path.read_text().splitlines(), 1):
        where = f"{path.relative_to(ROOT)}:{number}"
        if re.search(r"#\[ignore\]", line):
            problems.append(f"{where}: an ignored test without a reason")
        if re.search(r"\b(TODO|FIXME)\b(?!\()", line):
            problems.append(f"{where}: a TODO without a reason in parentheses")

problems += promises.problems()

tracked = subprocess.run(
    ["git", "ls-files", "-z", *WIDTH_HOLDS_IN],
    cwd=ROOT,
    capture_output=True,
    text=True,
    check=True,
)
for name in filter(None, tracked.stdout.split("\0")):
    path = ROOT / name
    # A file that was deleted and not committed is still tracked.
    if not path.exists():
        continue
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if len(line) > WIDTH and not UNBREAKABLE.search(line):
            problems.append(f"{name}:{number}: {len(line)} characters, and {WIDTH} is the limit")

architecture = (ROOT / "docs" / "architecture.md").read_text()
section = re.search(r"^## Where do I change.*?(?=^## |\Z)", architecture, re.DOTALL | re.MULTILINE)
table = re.findall(r"^\|.*", section.group(0), re.MULTILINE) if section else []
named = [path for row in table for path in re.findall(r"`([^`\s]*/[^`\s]*)`", row)]
if not named:
    problems.append("docs/architecture.md: the table of where to change what names no path")
for path in named:
    if not (ROOT / path).exists():
        problems.append(f"docs/architecture.md: names the path `{path}`, which does not exist")



def prose_of(page):
    """The page without its blocks of code."""
    return re.sub(r"^ *(```+).*?^ *\1 *$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors_of(page):
    """What the headings of a page are called in links to them."""
    found = set()
    for heading in re.findall(r"^#+ +(.*?) *$", prose_of(page), re.MULTILINE):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        # A second one of the same name gets a number.
        if name in found:
            name += f"-{sum(other.startswith(name) for other in found)}"
        found.add(name)
    return found


pages = subprocess.run(
    ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"],
    cwd=ROOT,
    capture_output=True,
    text=True,
    check=True,
)
pages = [ROOT / name for name in pages.stdout.split("\0") if name and (ROOT / name).exists()]
for page in pages:
    where = page.relative_to(ROOT)
    text = re.sub(r"`[^`]*`", "", prose_of(page))
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path) if path else page
        if not target.exists():
            problems.append(f"{where}: links to `{link}`, which does not exist")
        elif anchor and target.suffix == ".md" and anchor not in anchors_of(target):
            problems.append(f"{where}: links to `{link}`, where there is no such heading")

summary = ROOT / "docs" / "SUMMARY.md"
listed = re.findall(r"\]\(([^)]+)\)", summary.read_text())
for page in pages:
    if (ROOT / "docs") in page.parents and page != summary:
        name = page.relative_to(ROOT / "docs").as_posix()
        if listed.count(name) != 1:
            problems.append(f"docs/SUMMARY.md: lists {name} {listed.count(name)} times")

for crate in CRATES:
    for name in ("LICENSE-APACHE", "LICENSE-MIT"):
        copy = ROOT / crate / name
        if copy.is_symlink() or not copy.exists():
            problems.append(f"{crate}: {name} is no copy of the one at the root")
        elif copy.read_text() != (ROOT / name).read_text():
            problems.append(f"{crate}: {name} is another one than at the root")
    if "[package.metadata.docs.rs]" not in (ROOT / crate / "Cargo.toml").read_text():
        problems.append(f"{crate}/Cargo.toml: tells docs.rs nothing of its features")
    readme = (ROOT / crate / "README.md").read_text()
    for code in re.findall(r"^```rust.*?^```", readme, re.DOTALL | re.MULTILINE):
        for line in re.findall(r"^ *#(?: .*)?$", code, re.MULTILINE):
            problems.append(f"{crate}/README.md: hides a line of code: {line.strip()}")

for problem in problems:
    print(problem)
sys.exit(bool(problems))
