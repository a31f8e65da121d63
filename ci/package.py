"""What is wrong with packages that `cargo package` has made; ci/package.sh runs it."""

import json
import os
import posixpath
import re
import subprocess
import sys
import tarfile
import tomllib

# What the registry takes: bytes of a package, words of a manifest, letters of each.
MOST_BYTES = 10 << 20
MOST_WORDS = 5
LONGEST_WORD = 20

NEEDED = ("README.md", "LICENSE-APACHE", "LICENSE-MIT")
INCLUDED = re.compile(r'include(?:_str|_bytes)?!\(\s*"([^"]+)"')
RELATIVE = re.compile(r"\]\((?!https?://|#)([^)\s]+)\)")


def wrong_in_manifest(package):
    for key in ("description", "license", "readme", "documentation", "rust-version"):
        if not package.get(key):
            yield f"Cargo.toml has no {key}"
    for key in ("keywords", "categories"):
        words = package.get(key, [])
        if not 1 <= len(words) <= MOST_WORDS:
            yield f"Cargo.toml has {len(words)} {key}, and 1 to {MOST_WORDS} are taken"
        if key == "keywords":
            yield from (f"the keyword {word} is too long" for word in words
                        if len(word) > LONGEST_WORD)
    if "\n" in package.get("description", ""):
        yield "the description has a line break"
    if "docs" not in package.get("metadata", {}):
        yield "Cargo.toml does not say what docs.rs shows: [package.metadata.docs.rs]"


def tested_only(text, at):
    """Whether what is here is compiled for tests of this tree only."""
    before = text[max(0, at - 200):at]
    return "doctest" in before or "cfg(test)" in before


def wrong_in_sources(texts):
    for path, text in texts.items():
        if not path.endswith(".rs") or not path.startswith("src/"):
            continue
        for found in INCLUDED.finditer(text):
            inside = posixpath.normpath(posixpath.join(posixpath.dirname(path), found[1]))
            if inside not in texts and not tested_only(text, found.start()):
                yield f"{path} includes {found[1]}, which is not in the package"


def wrong(archive, name):
    with tarfile.open(archive) as tar:
        files = {member.name.split("/", 1)[1]: member for member in tar.getmembers()}
        text_files = [path for path in files if path.endswith((".rs", ".md", ".toml", ".sql"))]
        texts = {path: tar.extractfile(files[path]).read().decode() for path in text_files}
        texts |= {path: "" for path in files if path not in texts}
    yield from (f"{path} is missing" for path in NEEDED if path not in files)
    if os.path.getsize(archive) > MOST_BYTES:
        yield f"it has {os.path.getsize(archive)} bytes, and {MOST_BYTES} is the limit"
    manifest = tomllib.loads(texts["Cargo.toml"])
    yield from wrong_in_manifest(manifest["package"])
    yield from (f"README.md links to {link}, which its page does not have"
                for link in RELATIVE.findall(texts.get("README.md", "")))
    yield from wrong_in_sources(texts)


def main(names):
    metadata = subprocess.run(["cargo", "metadata", "--no-deps", "--format-version=1"],
                              check=True, capture_output=True).stdout
    metadata = json.loads(metadata)
    versions = {package["name"]: package["version"] for package in metadata["packages"]}
    folder = os.path.join(metadata["target_directory"], "package")
    failed = False
    for name in names:
        for what in wrong(f"{folder}/{name}-{versions[name]}.crate", name):
            failed = True
            print(f"{name}: {what}")
    sys.exit(failed)


if __name__ == "__main__":
    main(sys.argv[1:])
