#!/bin/sh
# Sets up and runs the main job: a real training with its hardware charted beside the loss.
set -eu
cd "$(dirname "$0")/.."
. ./tests/setup.sh

make_venv .venv
.venv/bin/python -m pip install --quiet --editable '.[system,ui]' scikit-learn
exec .venv/bin/python examples/digits.py
