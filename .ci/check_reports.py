"""Checks that each test environment whose Python is here ran tests, and prints how many."""

from __future__ import annotations

import shutil
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ENVIRONMENTS = {"py310": "python3.10", "py311": "python3.11", "py312": "python3.12", "py313": "python3.13"}


def main() -> int:
    wanted = {name for name, python in ENVIRONMENTS.items() if shutil.which(python)} | {"noextras", "ui", "readme"}
    passed = failed = skipped = 0
    problems = []
    for name in sorted(wanted):
        report = Path(".tox/reports") / f"{name}.xml"
        if not report.exists():
            problems.append(f"{name} left no report")
            continue
        suites = ElementTree.parse(report).getroot().iter("testsuite")
        counts = [
            {key: int(suite.get(key, 0)) for key in ("tests", "failures", "errors", "skipped")} for suite in suites
        ]
        bad = sum(count["failures"] + count["errors"] for count in counts)
        left_out = sum(count["skipped"] for count in counts)
        good = sum(count["tests"] for count in counts) - bad - left_out
        print(f"{name}: {good} passed, {bad} failed, {left_out} skipped")
        if good == 0:
            problems.append(f"{name} ran no test")
        passed, failed, skipped = passed + good, failed + bad, skipped + left_out
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if problems or failed or not wanted else 0


if __name__ == "__main__":
    sys.exit(main())
