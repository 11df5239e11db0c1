#!/bin/sh
# Sets up and runs the main job: a real training with its hardware charted beside the loss.
set -eu
echo "1 of 4: a virtual environment, .venv in the checkout"
from=$(pwd)
case "${METRANA_DIR:-/}" in /* | "~"*) ;; *) export METRANA_DIR="$from/$METRANA_DIR" ;; esac
cd "$(dirname "$0")/.."
. ./tests/setup.sh
make_venv .venv
install() { .venv/bin/python -m pip install --quiet --disable-pip-version-check "$@"; }

echo "2 of 4: metrana into it, with what draws charts"
install --editable '.[system,ui]'
echo "3 of 4: scikit-learn, which is what trains (with what it needs about 60 MB)"
install scikit-learn
echo "4 of 4: twelve seconds of training, then its charts"
echo
METRANA_QUIET=1 .venv/bin/python examples/digits.py

# typed PATH: a path of the checkout as it's typed in a shell, where this script was called.
typed() {
    path="$at$1"
    case "$path" in
        *[!A-Za-z0-9_./-]*) printf "'%s'" "$(printf %s "$path" | sed "s/'/'\\\\''/g")" ;;
        *) printf %s "$path" ;;
    esac
}
root=$(pwd)
case "$root" in
    "$from") at="" ;;
    "${from%/}"/*) at="${root#"${from%/}"/}/" ;;
    *) at="$root/" ;;
esac
if [ -n "${METRANA_DIR:-}" ] || [ -z "$at" ]; then store=""; else store=" --dir $(typed .metrana)"; fi
cat <<END

What next:
  $(typed .venv/bin/metrana) ui$store
      the same and more as a page of charts in your browser
  $(typed .venv/bin/metrana) show digits$store
      this again, in the terminal
  $(typed docs/tutorial.md)
      your own training: one line of import, one of init()
END
