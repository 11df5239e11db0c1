"""What the README and the documentation show can be run: a page's blocks one after the other, in a folder of their own.

A Python block is a script of its own, after its page's prelude; where the text says "Put this into `NAME`", it's that
file, for the commands below it. The commands of a console block are run, and the output that it shows is compared, with
`...` for what changes. A block that can't be run here has `<!-- not run: the reason -->` in the line above it.
"""

from __future__ import annotations

import doctest
import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.scripts import DEADLINE_SECS, Script

ROOT = Path(__file__).resolve().parents[2]
RUN = ("python", "pycon", "console")

# A page's training lasts until its hardware is charted: on a busy machine a short one would end before.
WAIT = """
def wait_for_charts(run):
    import pathlib, time
    def is_charted():
        run.flush()
        return any("system/memory/" in path.read_text() for path in pathlib.Path(run.path).rglob("*.jsonl"))
    while not is_charted():
        time.sleep(0.02)
"""
# What a page's Python takes for granted, as its text says.
PRELUDES = {
    "docs/how-to/notebooks.md": WAIT + "import metrana\n",
    "docs/how-to/reading-the-data.md": "import metrana\nrun = metrana.open_run('pretrain')\n",
    "docs/how-to/several-processes.md": "import metrana\n",
    "docs/how-to/without-a-run.md": """
class Tracker:
    def log(self, name, value, labels, timestamp):
        assert name.startswith("system/") and isinstance(labels, dict)
    def set_facts(self, attributes):
        assert attributes
tracker = Tracker()
""",
}
# Words of a command that stand for something, and what they stand for here.
PLACEHOLDERS = {"RUN": "train"}
RUNS = """
import metrana
for name in ("train", "pretrain"):
    with metrana.init(run_name=name, capture_system_metrics=False):
        for step in range(3):
            metrana.log("loss", 0.5)
            for gpu in range(2):
                labels = {"host": "node7", "gpu": str(gpu)}
                metrana.log("system/gpu/utilization", 90.0 + gpu, labels=labels)
                metrana.log("system/gpu/memory_used_bytes", 1e9, labels=labels)
            metrana.log("system/cpu/utilization", 50.0, labels={"host": "node7"})
"""


class Block(NamedTuple):
    """A fenced block: its language, text and first line's number, the line above and the text before."""

    language: str
    text: str
    line: int
    above: str
    before: str


def parse_blocks(text: str) -> list[Block]:
    """The fenced blocks of a page."""
    found = []
    for match in re.finditer(r"^(`{3,})(\S*)\n(.*?)^\1$", text, re.MULTILINE | re.DOTALL):
        before = text[: match.start()]
        above = before.splitlines()[-1] if before else ""
        found.append(Block(match[2], match[3], before.count("\n") + 2, above, before))
    return found


def parse_reason(block: Block) -> str:
    """Why a block isn't run, or nothing."""
    match = re.fullmatch(r"<!-- not run: (.+) -->", block.above)
    return match[1] if match else ""


def parse_console(text: str) -> list[tuple[str, str]]:
    """The commands of a console block, each with the output that's shown below it."""
    return re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE)


def find_blocks(path: Path) -> list[Block]:
    """The blocks of a page that are run, or say why not."""
    return [block for block in parse_blocks(path.read_text(encoding="utf-8")) if block.language in RUN]


PAGES = [path for path in sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]) if find_blocks(path)]


class Page:
    """A page's folder, and what's run in it."""

    def __init__(self, folder: Path, prelude: str) -> None:
        self.folder = folder
        self.prelude = prelude
        environ = Script(folder, "").environment()
        del environ["METRANA_DIR"]  # the pages speak of the default, ./.metrana
        self.environ = environ

    def run(self, *arguments: str) -> str:
        """The output of this interpreter with those arguments."""
        command = [sys.executable, "-W", "error", *arguments]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environ, capture_output=True, text=True, timeout=DEADLINE_SECS
        )
        missing = re.search(r"needs (.+), which (?:isn't|aren't) installed", done.stderr)
        names = re.split(", | and ", missing[1]) if missing else []
        if done.returncode != 0 and any(importlib.util.find_spec(name.lower()) is None for name in names):
            pytest.skip(f"needs {' and '.join(names)}")
        assert 0 == done.returncode, done.stdout + done.stderr
        return done.stdout

    def run_python(self, block: Block) -> None:
        named = re.search(r"Put this into `([\w.]+)`:\s*$", block.before)
        path = self.folder / (named[1] if named else "snippet.py")
        text = block.text if named else self.prelude + block.text
        if "run = metrana.init(" in text and WAIT in self.prelude:
            text += "wait_for_charts(run)\n"
        path.write_text(text, encoding="utf-8")
        if not named:
            self.run(path.name)

    def run_session(self, block: Block) -> None:
        """An interpreter's session, what it prints compared."""
        (self.folder / "session.txt").write_text(block.text, encoding="utf-8")
        self.run("-m", "doctest", "-o", "ELLIPSIS", "session.txt")

    def run_console(self, block: Block) -> None:
        for command, shown in parse_console(block.text):
            words = [PLACEHOLDERS.get(word, word) for word in shlex.split(command)]
            program = {"metrana": ("-m", "metrana"), "python": ()}.get(words[0])
            assert program is not None, f"{command!r} isn't run here: say why in the line above the block"
            printed = self.run(*program, *words[1:])
            assert not shown or doctest.OutputChecker().check_output(shown, printed, doctest.ELLIPSIS), printed


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the runs that the pages speak of."""
    page = Page(tmp_path_factory.mktemp("store"), "")
    (page.folder / "runs.py").write_text(RUNS)
    page.run("runs.py")
    return page.folder / ".metrana"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_pages_snippets_run(path: Path, store: Path, tmp_path: Path) -> None:
    """Each block of Python and each command of a page does what the page shows, or says why it isn't tried."""
    shutil.copytree(store, tmp_path / ".metrana")
    page = Page(tmp_path, PRELUDES.get(path.relative_to(ROOT).as_posix(), ""))
    runners = {"python": page.run_python, "pycon": page.run_session, "console": page.run_console}
    for block in find_blocks(path):
        if not parse_reason(block):
            try:
                runners[block.language](block)
            except AssertionError as error:
                raise AssertionError(f"{path.name}, line {block.line}: {error}") from error


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_reason_stands_above_a_block(path: Path) -> None:
    """A reason for not running is the line above a block that would be run otherwise."""
    reasons = [reason for block in find_blocks(path) if (reason := parse_reason(block))]
    assert path.read_text(encoding="utf-8").count("<!-- not run:") == len(reasons)


def test_a_prelude_is_of_a_page() -> None:
    """Each prelude belongs to a page that has Python."""
    pages = {path.relative_to(ROOT).as_posix(): path for path in PAGES}
    for name in PRELUDES:
        assert "```python\n" in pages[name].read_text(encoding="utf-8")


def test_shown_output_is_compared(tmp_path: Path) -> None:
    """A command that prints something else than the page shows fails, and so does a session."""
    page = Page(tmp_path, "")
    (tmp_path / "say.py").write_text("print('loss 0.5 at', 1.25)\n")
    page.run_console(Block("console", "$ python say.py\nloss 0.5 at ...\n", 1, "", ""))
    page.run_session(Block("pycon", ">>> 1 + 1\n2\n", 1, "", ""))
    with pytest.raises(AssertionError):
        page.run_console(Block("console", "$ python say.py\nloss 0.4 at ...\n", 1, "", ""))
    with pytest.raises(AssertionError):
        page.run_session(Block("pycon", ">>> 1 + 1\n3\n", 1, "", ""))
