#!/bin/sh
# Sets up what the tests need and runs them: tox in a virtual environment of its own, skipping Pythons that aren't there.
set -eu
cd "$(dirname "$0")/.."
. ./tests/setup.sh

needs_debian_package cc gcc
make_venv .venv
.venv/bin/python -m pip install --quiet --upgrade tox
exec .venv/bin/tox run "$@"
