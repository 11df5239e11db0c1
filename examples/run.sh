#!/bin/sh
# Sets up and runs the main job: a real training with its hardware charted beside the loss.
set -eu
echo "1 of 4: a virtual environment, .venv in the checkout"
from=$(pwd)
cd "$(dirname "$0")/.."
. ./tests/setup.sh
make_venv .venv

echo "2 of 4: metrana into it, with what draws charts"
.venv/bin/python -m pip install --quiet --editable '.[system,ui]'
echo "3 of 4: scikit-learn, which is what trains (with what it needs about 60 MB)"
.venv/bin/python -m pip install --quiet scikit-learn
echo "4 of 4: twelve seconds of training, then its charts"
echo
METRANA_QUIET=1 .venv/bin/python examples/digits.py

# As it's to be typed where this was called from.
root=$(pwd)
store=" --dir '$root/.metrana'"
case "$root" in
    "$from") at="" store="" ;;
    "${from%/}"/*) at="${root#"${from%/}"/}/" store=" --dir '${root#"${from%/}"/}/.metrana'" ;;
    *) at="$root/" ;;
esac
case "$at" in *[!A-Za-z0-9_./-]*) command="'${at}.venv/bin/metrana'" ;; *) command="${at}.venv/bin/metrana" ;; esac
[ -z "${METRANA_DIR:-}" ] || store=""
cat <<END

What next:
  $command ui$store
      the same and more as a page of charts in your browser
  $command show digits$store
      this again, in the terminal
  docs/tutorial.md
      your own training: one line of import, one of init()
END
