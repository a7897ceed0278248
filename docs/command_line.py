"""Writes reference/command-line.md from the help texts of the command line, when the site is built."""

import os
import pathlib
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/reference/command-line.md"
HEAD = """# Command line

This page has the help text of every command, as `riesz COMMAND --help-all` prints it. [The cheat
sheet](cheatsheet.md) lists tasks with their calls, and [errors](errors.md) has the exit codes.
"""
NO_PROGRAM = "\nThis build of the site had no command line: run `cargo build`, then build the site again.\n"


def program():
    """The path of the command line: `$RIESZ`, the build of this checkout, or the one on the search path."""
    built = [ROOT / "target/debug/riesz", ROOT / "target/release/riesz"]
    existing = [str(path) for path in built if path.exists()]
    return os.environ.get("RIESZ") or next(iter(existing), None) or shutil.which("riesz")


def help_of(path, words):
    """The help text of a command."""
    # The help shows the program by the name by which it was called.
    arguments = ["riesz", *words, "--help-all"]
    done = subprocess.run(arguments, executable=path, capture_output=True, text=True, check=True)
    return "\n".join(line.rstrip() for line in done.stdout.strip().splitlines())


def subcommands(text):
    """The names in the list of commands of a help text."""
    listed = re.search(r"^Commands:\n(.*?)(\n\n|\Z)", text, re.DOTALL | re.MULTILINE)
    names = re.findall(r"^  (\S+)", listed[1], re.MULTILINE) if listed else []
    return [name for name in names if name != "help"]


def sections(path, words=()):
    """The help texts of a command and of its subcommands, as sections of Markdown."""
    text = help_of(path, words)
    yield f"\n## riesz {' '.join(words)}".rstrip() + f"\n\n```text\n{text}\n```\n"
    for name in subcommands(text):
        yield from sections(path, (*words, name))


def page():
    """The text of the page."""
    path = program()
    return HEAD + (NO_PROGRAM if path is None else "".join(sections(path)))


def write():
    """Writes the page if it differs from the file."""
    text = page()
    if not PAGE.exists() or PAGE.read_text() != text:
        PAGE.write_text(text)
