"""Counts what CONTRIBUTING.md asks to avoid; fails where a count has risen above scripts/style_counts.json.

Counted are identifiers and files named by a bare function word, lines of more than 110 columns, functions of
more than 80 lines without a comment that begins with `Long:`, and first sentences of documentation that begin
without their noun.

    python3 scripts/style.py            compare with the recorded counts
    python3 scripts/style.py --list lines|names|files|functions|sentences [FOLDER]
    python3 scripts/style.py --record   write the counts, which may only fall
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
COUNTS = ROOT / "scripts" / "style_counts.json"
MAX_COLUMNS = 110
MAX_LINES = 80

#: Names that do not describe their object: function words, and words that riesz once used in a special sense.
BANNED = set(
    """
    all alike alone amid around arrived asked aside at bend bent beside besides beyond both by chance chances
    decided each either ended few found given half halves heed held here how last least lot many met more most
    much nobody of off one ones others own rest said same says some spread standing stray strays such sure
    surely that there this those through told together turned turns twist unsure various what where whole whom
    whose
    within without worth worths
    """.split()
)
#: Words that begin a first sentence without a noun.
NO_NOUN = re.compile(
    r"(Of|By|What|The same|As|How|Those|Whose|Whom|It|That|Such|In what|From what|To what|With what|So)\b"
)
#: Bound or declared names in Rust.
RUST_NAME = re.compile(
    r"\b(?:fn|struct|enum|trait|mod|type|const|static)\s+(\w+)|\blet\s+(?:mut\s+)?(\w+)\b(?!\s*[({])|"
    r"(?:^|[(,|]\s*)(?:mut\s+|&\s*)?([a-z_]\w*)\s*:\s*(?!:)|\|\s*&?(\w+)\s*\|"
)


def sources() -> list[Path]:
    """The source and test files under version control."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.rs", "*.py", "*.pyi"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / name for name in sorted(set(listed.stdout.split())) if (ROOT / name).exists()]


def without_text(line: str) -> str:
    """A line of Rust without its strings and its comment."""
    line = re.sub(r'"(?:[^"\\]|\\.)*"', '""', line)
    return line.split("//", 1)[0]


def long_lines(path: Path, lines: list[str]) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_COLUMNS:
            yield f"{path.relative_to(ROOT)}:{number}: {len(line)} columns"


def names(path: Path, lines: list[str]) -> Iterator[str]:
    if path.suffix == ".rs":
        for number, line in enumerate(lines, 1):
            for match in RUST_NAME.finditer(without_text(line)):
                name = next(group for group in match.groups() if group)
                if name.lower() in BANNED:
                    yield f"{path.relative_to(ROOT)}:{number}: {name}"
        return
    for node in ast.walk(ast.parse("\n".join(lines))):
        name = {
            ast.FunctionDef: lambda n: n.name,
            ast.ClassDef: lambda n: n.name,
            ast.arg: lambda n: n.arg,
            ast.Name: lambda n: n.id if isinstance(n.ctx, ast.Store) else "",
        }.get(type(node), lambda n: "")(node)
        if name.lower().strip("_") in BANNED and name != "__all__":
            yield f"{path.relative_to(ROOT)}:{node.lineno}: {name}"


def files(path: Path, lines: list[str]) -> Iterator[str]:
    if path.stem.lower().strip("_") in BANNED:
        yield str(path.relative_to(ROOT))


def long_functions(path: Path, lines: list[str]) -> Iterator[str]:
    if path.suffix == ".rs":
        for number, line in enumerate(lines):
            start = re.match(r"( *)(?:pub(?:\([a-z]+\))? )?(?:const |async |unsafe )*fn (\w+)", line)
            if not start:
                continue
            # A declaration within `dispatch!` has no body; the macro's own brace ends it.
            ends = (start[1] + "}", "}")
            end = next((k for k in range(number, len(lines)) if lines[k].rstrip() in ends), number)
            reason = any("Long:" in text for text in lines[max(0, number - 12) : number])
            if end - number + 1 > MAX_LINES and not reason:
                yield f"{path.relative_to(ROOT)}:{number + 1}: {start[2]}, {end - number + 1} lines"
        return
    for node in ast.walk(ast.parse("\n".join(lines))):
        if isinstance(node, ast.FunctionDef):
            text = ast.get_docstring(node, clean=False) or ""
            length = (node.end_lineno or 0) - node.lineno + 1 - len(text.splitlines())
            if length > MAX_LINES and "Long:" not in "\n".join(lines[max(0, node.lineno - 4) : node.lineno]):
                yield f"{path.relative_to(ROOT)}:{node.lineno}: {node.name}, {length} lines"


def sentences(path: Path, lines: list[str]) -> Iterator[str]:
    if path.suffix == ".rs":
        before = ""
        for number, line in enumerate(lines, 1):
            text = line.strip()
            mark = text[:3]
            if mark in ("///", "//!") and before[:3] != mark and NO_NOUN.match(text[3:].strip()):
                yield f"{path.relative_to(ROOT)}:{number}: {text[3:].strip()[:80]}"
            before = text
        return
    documented = (ast.FunctionDef, ast.ClassDef, ast.Module)
    for node in ast.walk(ast.parse("\n".join(lines))):
        text = ast.get_docstring(node) if isinstance(node, documented) else None
        if text and NO_NOUN.match(text):
            yield f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}: {text.splitlines()[0][:80]}"


CHECKS = {
    "lines": long_lines,
    "names": names,
    "files": files,
    "functions": long_functions,
    "sentences": sentences,
}


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--list"]:
        folder = ROOT / (arguments[2] if len(arguments) > 2 else "")
        for path in sources():
            if path.is_relative_to(folder):
                for finding in CHECKS[arguments[1]](path, path.read_text().splitlines()):
                    print(finding)
        return 0
    counts: Counter[str] = Counter()
    for path in sources():
        lines = path.read_text().splitlines()
        for check, finder in CHECKS.items():
            counts[check] += sum(1 for _ in finder(path, lines))
    recorded = json.loads(COUNTS.read_text()) if COUNTS.exists() else {}
    risen = {check: n for check, n in counts.items() if n > recorded.get(check, n)}
    for check, n in counts.items():
        print(f"style: {check}: {n} (recorded {recorded.get(check, '-')})")
    if risen:
        print(
            f"style: more than recorded: {', '.join(risen)}; python3 scripts/style.py --list CHECK shows "
            "where",
            file=sys.stderr,
        )
        return 1
    if arguments == ["--record"]:
        COUNTS.write_text(json.dumps(dict(counts), indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
