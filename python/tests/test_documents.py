"""The code in README and in the pages of the site runs.

Cells (``code-cell``) run when the site is built. Here run the Python blocks of README and all blocks of
command lines (``sh``, ``console``). The blocks of one document run in order, in an empty folder with the
tables below. A block that cannot run has the comment ``<!-- not run: REASON -->`` in the line above it.
"""

import importlib
import inspect
import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

import riesz

ROOT = pathlib.Path(__file__).resolve().parents[2]
GENERATED = ROOT / "docs/reference/command-line.md"
PAGES = [path for path in sorted((ROOT / "docs").rglob("*.md")) if path != GENERATED]
DOCUMENTS = [ROOT / "README.md", ROOT / "crates/riesz-cli/README.md", *PAGES]
NOT_RUN = re.compile(r"<!-- not run: .+ -->")
COMMANDS = {"sh", "console"}


def blocks(path, languages):
    """The fenced blocks of a document in these languages that can run: line number and code."""
    matching, above, start, code = [], "", 0, None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if code is None and (fence := re.fullmatch(r"```(\S+)", line)):
            wanted = fence[1] in languages and not NOT_RUN.fullmatch(above)
            start, code = number, []
        elif code is not None and line == "```":
            if wanted:
                matching.append((start, "\n".join(code)))
            above, code = "", None
        elif code is not None:
            code.append(line)
        elif line:
            above = line
    return matching


def command():
    """The path of the command line that was built from this checkout."""
    built = [ROOT / "target/debug/riesz", ROOT / "target/release/riesz"]
    return os.environ.get("RIESZ") or next((str(path) for path in built if path.exists()), None)


def write_table(path, columns):
    """Writes columns as CSV, with the shortest text of every number."""
    rows = zip(*(np.asarray(column).tolist() for column in columns.values()))
    lines = [",".join(columns), *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n")


def write_regression_tables(folder, rng):
    """``train.csv`` and ``new.csv``: four columns of numbers, one of categories, and targets."""
    for name, n in (("train.csv", 80), ("new.csv", 6)):
        X = rng.normal(size=(n, 4)).round(3)
        price = 10 + 2 * X[:, 0] + X[:, 1] * X[:, 2] + 0.2 * rng.normal(size=n)
        columns = dict(zip(["age", "bmi", "bp", "income"], X.T))
        columns["city"] = rng.choice(["Bern", "Oslo"], n)
        columns["price"] = price.round(3)
        columns["churn"] = np.where(price > 10, "yes", "no")
        write_table(folder / name, columns)
    (folder / "typical.csv").write_text((folder / "train.csv").read_text().split("\n", 2)[0] + "\n")
    with (folder / "typical.csv").open("a") as file:
        file.write("0,0,0,0,Bern,10,no\n")


def write_duels(folder, rng):
    """``votes.jsonl`` in the arena's form, ``phones.csv`` and ``votes.csv``, and a season of matches."""
    names = [f"model-{letter}" for letter in "abcdef"]
    battles = []
    for _ in range(150):
        left, right = rng.choice(6, 2, replace=False)
        winner = "model_a" if rng.random() < 1 / (1 + np.exp(0.8 * (left - right))) else "model_b"
        winner = "tie" if rng.random() < 0.1 else winner
        battles.append(f'{{"model_a": "{names[left]}", "model_b": "{names[right]}", "winner": "{winner}"}}')
    (folder / "votes.jsonl").write_text("\n".join(battles) + "\n")
    n = 12
    battery, price = rng.uniform(8, 30, n).round(1), rng.uniform(100, 1200, n).round()
    phones = [f"phone {i}" for i in range(n)]
    write_table(folder / "phones.csv", {"name": phones, "battery": battery, "price": price})
    left, right = np.triu_indices(n, 1)
    won = rng.random(len(left)) < 1 / (1 + np.exp(0.2 * (battery[right] - battery[left])))
    winner, loser = np.where(won, left, right), np.where(won, right, left)
    names = np.array(phones)
    write_table(
        folder / "votes.csv",
        {
            "winner": names[winner],
            "loser": names[loser],
            "day": range(len(left)),
            "judge": np.resize(["ann", "bob"], len(left)),
        },
    )
    pairs = [(a, b) for a in range(5) for b in range(5) if a != b]
    goals = rng.poisson(1.5, size=(len(pairs), 2))
    home, away = np.array([f"club {a}" for a, _ in pairs]), np.array([f"club {b}" for _, b in pairs])
    season = {"home": home, "away": away, "home_goals": goals[:, 0], "away_goals": goals[:, 1]}
    write_table(folder / "games.csv", season)
    # Shelves of three phones, from which the one with the largest battery is chosen.
    shelves = np.array([[i, (i + 3) % n, (i + 7) % n] for i in range(n)])
    columns = {"set": np.repeat(range(n), 3), "item": names[shelves.ravel()]}
    write_table(folder / "shelves.csv", columns)
    chosen = battery[shelves] == battery[shelves].max(axis=1, keepdims=True)
    write_table(folder / "picks.csv", {**columns, "chosen": chosen.ravel().astype(int)})


def write_areas(folder, rng):
    """``pixels.csv`` with ``districts.csv``, and ``towns.csv`` with a count for each row."""
    east, north = (axis.ravel() for axis in np.meshgrid(np.arange(12), np.arange(12)))
    district = np.array([f"{e // 3}-{n // 3}" for e, n in zip(east, north)])
    height, rain = (400 + 30 * north + 50 * rng.normal(size=144)).round(), (10.0 * east).round()
    people = rng.integers(100, 900, 144)
    rate = np.exp(-4 + 0.002 * (height - 500) + 0.003 * rain)
    cases = rng.poisson(people * rate)
    place = {"east": east, "north": north, "height": height, "rain": rain, "people": people}
    write_table(folder / "pixels.csv", {"district": district, **place})
    names = sorted(set(district))
    totals = [cases[district == name].sum() for name in names]
    means = [(rate * people)[district == name].sum() / people[district == name].sum() for name in names]
    write_table(
        folder / "districts.csv", {"district": names, "cases": totals, "rate": np.array(means).round(5)}
    )
    towns = {"town": [f"town {i}" for i in range(144)], **place, "cases": cases}
    write_table(folder / "towns.csv", {name: list(column)[:60] for name, column in towns.items()})


def write_studies(folder, rng):
    """``data.csv`` with a confounder, the studies ``s1.csv`` and ``s2.csv``, and their graphs."""
    n = 60
    severity, dose = rng.normal(size=(2, n))
    dose = (dose + severity).round(3)
    recovery = (np.sin(dose) - severity + 0.2 * rng.normal(size=n)).round(3)
    write_table(folder / "data.csv", {"severity": severity.round(3), "dose": dose, "recovery": recovery})
    write_table(folder / "clinic.csv", {"severity": rng.normal(1, 0.5, 20).round(3)})
    (folder / "g.txt").write_text("severity -> dose; severity -> recovery; dose -> recovery\n")
    age = rng.normal(65, 7, n).round(1)
    statin = (1 / (1 + np.exp(-(age - 65) / 8 - rng.normal(size=n)))).round(3)
    psa = (6 + 0.15 * (age - 65) - 3 * statin + 0.4 * rng.normal(size=n)).round(3)
    write_table(folder / "s1.csv", {"statin": statin, "age": age, "psa": psa})
    psa = rng.uniform(0.5, 10, n).round(3)
    volume = (25 + 3 * psa + rng.normal(size=n)).round(3)
    write_table(folder / "s2.csv", {"psa": psa, "volume": volume})
    (folder / "studies.txt").write_text("age -> statin; age -> psa; statin -> psa; psa -> volume\n")
    write_table(folder / "doses.csv", {"statin": [0.2, 0.5, 0.8]})
    write_table(folder / "tried.csv", {"statin": [0.2, 0.75], "volume": [36.0, 30.8]})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder with the tables that the documents use, which is the working directory."""
    rng = np.random.default_rng(0)
    data = tmp_path / "crates/riesz-cli/data"
    data.mkdir(parents=True)
    shutil.copy(ROOT / "crates/riesz-cli/data/diabetes.csv", data)
    for write in (write_regression_tables, write_duels, write_areas, write_studies):
        write(tmp_path, rng)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_python_of_the_readme_runs(folder):
    pytest.importorskip("pandas")
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    readme = blocks(ROOT / "README.md", {"python"})
    assert readme, "README has no example"
    names = {}
    for line, code in readme:
        exec(compile("\n" * line + code, "README.md", "exec"), names)  # line numbers are those of README
    assert (folder / "why.html").stat().st_size > 10_000
    # The values of the example add up to the predictions of scikit-learn.
    explanation, rows = names["explanation"], names["X"][:50]
    sums = explanation.values.sum(axis=1) + np.ravel(explanation.base_values)
    np.testing.assert_allclose(sums, names["model"].predict(rows), rtol=1e-9)


@pytest.mark.parametrize(
    "path",
    [path for path in DOCUMENTS if blocks(path, COMMANDS)],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_command_lines_run(path, folder):
    program = command()
    if program is None or os.name != "posix":
        pytest.skip("no command line was built; set RIESZ to its path")
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    (bin_folder / "riesz").symlink_to(program)
    folders = [str(bin_folder), str(pathlib.Path(sys.executable).parent), os.environ["PATH"]]
    environment = {**os.environ, "PATH": os.pathsep.join(folders)}
    assert_commands_run(path, environment)
    if path == ROOT / "README.md":  # the picture at its head is that of its commands
        described = re.compile(r"<title>.*?</desc>", re.DOTALL)
        committed = (ROOT / "docs/images/beeswarm.svg").read_text()
        drawn = (folder / "beeswarm.svg").read_text()
        assert described.search(drawn)[0] == described.search(committed)[0]
        assert drawn.count("<path") == committed.count("<path")


def assert_commands_run(path, environment):
    """Runs the command lines of a document in order, in the working directory."""
    for line, code in blocks(path, COMMANDS):
        script = ["bash", "-e", "-o", "pipefail", "-c", code]
        done = subprocess.run(script, env=environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, f"{path.relative_to(ROOT)}:{line}: {done.stderr.strip()}"


def test_blocks_are_found_and_failures_are_seen(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "Text\n\n```sh\nfalse\n```\n\n<!-- not run: needs a cluster -->\n```console\nsbatch\n```\n"
        "\n```{code-cell}\n1\n```\n"
        "\n```python\nx = 1\n```\n"
    )
    assert blocks(page, COMMANDS) == [(3, "false")]
    assert blocks(page, {"python"}) == [(16, "x = 1")]
    assert subprocess.run(["bash", "-e", "-c", blocks(page, COMMANDS)[0][1]]).returncode != 0


def test_every_python_block_of_the_site_is_a_cell_or_has_a_reason():
    """A ``python`` block in a page is not run by the site; the reason says why it is no cell."""
    for path in DOCUMENTS[1:]:
        for line, _ in blocks(path, {"python"}):
            pytest.fail(f"{path.relative_to(ROOT)}:{line}: make it a code-cell, or say why it is not run")


def cells(path):
    """The code of the cells of a page, which the site runs in this order."""
    return re.findall(
        r"^```\{code-cell\}\n(.*?)^```$", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )


@pytest.mark.filterwarnings("ignore")
def test_botorch_of_the_tutorial_runs(folder):
    torch = pytest.importorskip("torch")
    pytest.importorskip("botorch")
    page = ROOT / "docs/tutorials/experiments.md"
    botorch = re.search(r"^```python\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)[1]
    names = {}
    for code in [*cells(page)[:3], botorch]:
        exec(code, names)
    rows = torch.tensor(names["chosen"].to_numpy())
    mean = names["botorch_model"].posterior(rows).mean.detach().numpy().ravel()
    np.testing.assert_allclose(names["why"].predictions.ravel(), mean, rtol=1e-6)
    assert names["why"].certificate.holds


def public_names(text):
    """Names such as ``riesz.plots.bar`` in a text."""
    return set(re.findall(r"\briesz(?:\.[A-Za-z]\w+)+", text))


def exists(name):
    """Whether a dotted name is a module or an attribute of one."""
    value, path = riesz, "riesz"
    for part in name.split(".")[1:]:
        path = f"{path}.{part}"
        try:
            value = getattr(value, part)
        except AttributeError:
            try:
                value = importlib.import_module(path)
            except ImportError:
                return False
    return True


def test_names_in_the_documents_exist():
    for path in DOCUMENTS:
        for name in public_names(path.read_text(encoding="utf-8")):
            private = re.search(r"\._", name)
            assert private or exists(name), f"{path.relative_to(ROOT)}: {name}"
    assert not exists("riesz.plots.pie")


def flags_of_calls(path):
    """The calls ``riesz COMMAND …`` in the sentences and tables of a document, with their flags."""
    for code in re.findall(r"`+(riesz [a-z][^`]*)`", path.read_text(encoding="utf-8")):
        words = code.split()
        groups = {"test", "prefer", "downscale", "causal", "distributed"}
        name = tuple(words[1:3] if words[1] in groups and len(words) > 2 else words[1:2])
        yield code, name, re.findall(r"(?<!\S)--[a-zA-Z-]+", code)


def test_flags_in_the_documents_exist():
    program = command()
    if program is None:
        pytest.skip("no command line was built; set RIESZ to its path")
    helps = {}
    for path in DOCUMENTS:
        for call, name, flags in flags_of_calls(path):
            if name not in helps:
                done = subprocess.run([program, *name, "--help-all"], capture_output=True, text=True)
                assert done.returncode == 0, f"{path.relative_to(ROOT)}: {call}"
                helps[name] = done.stdout
            for flag in flags:
                assert re.search(rf"{flag}\b", helps[name]), f"{path.relative_to(ROOT)}: {call}: {flag}"
    assert len(helps) > 15


def test_the_page_of_the_command_line_has_every_command(monkeypatch):
    if command() is None:
        pytest.skip("no command line was built; set RIESZ to its path")
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    monkeypatch.setenv("RIESZ", command())
    page = importlib.import_module("command_line").page()
    # The script of a shell's completions lists all commands, too.
    done = subprocess.run([command(), "completions", "fish"], capture_output=True, text=True, check=True)
    names = set(re.findall(r"__fish_riesz_needs_command\" .*-a \"([a-z-]+)\"", done.stdout)) - {"help"}
    assert len(names) > 10
    for name in names:
        assert re.search(rf"^## riesz {name}$", page, re.MULTILINE), name
        assert re.search(rf"^Usage: riesz {name}\b", page, re.MULTILINE), name
    assert "## riesz causal effect\n" in page


def test_the_gallery_has_every_plot():
    gallery = (ROOT / "docs/gallery.md").read_text()
    for name in riesz.plots.__all__:
        assert f"plots.{name}(" in gallery, name


def test_the_reference_lists_every_public_method():
    page = (ROOT / "docs/reference/api.md").read_text()
    module, missing = "riesz", []
    for line, name, options in re.findall(r"^\.\. (\w+):: ([\w.]+)\n((?:   :.*\n)*)", page, re.MULTILINE):
        module = name if line == "automodule" else module
        members = re.search(r":members: (.+)", options)
        if line != "autoclass" or members is None or "_" in name:
            continue
        path = name if name.startswith("riesz.") else f"riesz.{name}"
        parent, _, class_name = path.rpartition(".")
        attributes = vars(getattr(importlib.import_module(parent), class_name))
        public = {
            key
            for key, value in attributes.items()
            if key[0] != "_" and callable(value) and inspect.getdoc(value)
        }
        missing += [f"{path}.{key}" for key in public - set(members[1].split(", "))]
    assert not missing


READERS = [
    "tutorials/forest",
    "tutorials/experiments",
    "tutorials/counts",
    "tutorials/votes",
    "tutorials/audit",
]


@pytest.mark.parametrize("reader", READERS)
def test_a_reader_finds_the_tutorial_in_one_click(reader):
    for start in ("README.md", "docs/index.md"):
        assert re.search(rf"\]\([^)]*\b{reader}\.md\)", (ROOT / start).read_text()), start


@pytest.mark.parametrize("reader", READERS)
def test_a_tutorial_is_short(reader):
    page = (ROOT / "docs" / f"{reader}.md").read_text()
    text = re.sub(r"^```.*?^```$|^---.*?^---$", "", page, flags=re.DOTALL | re.MULTILINE)
    assert len(text.split()) <= 800


def test_links_between_documents_lead_somewhere():
    site = "https://github.com/riesz-rs/riesz/blob/main/"
    for path in [*DOCUMENTS, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", ROOT / "experiments/README.md"]:
        text = path.read_text(encoding="utf-8")
        definitions = re.findall(r"^\[[^]]+\]: (\S+)$", text, re.MULTILINE)
        for target in [*re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text), *definitions]:
            if target.startswith(site):
                assert (ROOT / target.removeprefix(site)).exists(), f"{path.relative_to(ROOT)}: {target}"
            elif re.search(r"\.(md|svg|png)$", target) and not target.startswith("http"):
                assert (path.parent / target).exists(), f"{path.relative_to(ROOT)}: {target}"
