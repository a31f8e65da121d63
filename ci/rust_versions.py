#!/usr/bin/env python3
"""Which Rust the README's two commands need, by what all that they compile states (`rust-version`).

    python3 ci/rust_versions.py

Fails if a dependency asks for more than our newest manifest states, or if the README says something
else. It needs no toolchain of that version; `ci/msrv.sh` compiles with one.
"""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def number(version):
    return tuple(int(part) for part in (version or "1").split("."))[:2]


def text(version):
    return ".".join(map(str, version))


def metadata():
    host = re.search(r"host: (\S+)", subprocess.check_output(["rustc", "-vV"], text=True)).group(1)
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", host]
    return json.loads(subprocess.check_output(command, cwd=ROOT, text=True))


def compiled(nodes, roots, with_tests):
    """The packages that are compiled for these: with tests, also what those need."""
    found, todo = set(), [(root, with_tests) for root in roots]
    while todo:
        package, with_dev = todo.pop()
        if package in found:
            continue
        found.add(package)
        for dependency in nodes[package]["deps"]:
            kinds = {kind["kind"] for kind in dependency["dep_kinds"]}
            if kinds - {"dev"} or with_dev:
                todo.append((dependency["pkg"], False))
    return found


def main():
    meta = metadata()
    packages = {package["id"]: package for package in meta["packages"]}
    nodes = {node["id"]: node for node in meta["resolve"]["nodes"]}
    ours = [packages[member] for member in meta["workspace_members"]]
    newest = max(number(it["rust_version"]) for it in ours if it["publish"] is None)
    examples = [package["id"] for package in ours if package["name"] == "examples"]
    commands = {
        "cargo run -p examples --example sessions": compiled(nodes, examples, False),
        "cargo test": compiled(nodes, meta["workspace_default_members"], True),
    }
    problems = []
    for command, needed in commands.items():
        for package in map(packages.get, sorted(needed)):
            wants = number(package["rust_version"])
            if wants > newest:
                name = f"{package['name']} {package['version']}"
                problems.append(f"`{command}`: {name} wants Rust {text(wants)}")
        print(f"`{command}`: {len(needed)} packages, none of which may want more than Rust "
              f"{text(newest)}")
    if f"need Rust {text(newest)}" not in (ROOT / "README.md").read_text():
        problems.append(f"README.md does not say that its commands need Rust {text(newest)}")
    for problem in problems:
        print(problem)
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
