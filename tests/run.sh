#!/bin/sh
# Sets up what the tests need and runs them: tox in a virtual environment of its own, skipping Pythons that aren't there.
set -eu
cd "$(dirname "$0")/.."
. ./tests/setup.sh

needs_debian_package cc gcc
needs_debian_package chromium chromium
needs_debian_package chromedriver chromium-driver
needs_debian_package pdftoppm poppler-utils
make_venv .venv
.venv/bin/python -m pip install --quiet --upgrade tox
echo "Every environment, new: about eleven minutes on two cores. A part of it: sh tests/run.sh -e py311,lint" >&2
# Several environments at a time: most of what the tests do is wait.
exec .venv/bin/tox run-parallel --parallel 5 --parallel-no-spinner "$@"
