# Sourced by the scripts that set things up on a machine with Python and nothing else.

# needs_debian_package COMMAND PACKAGE: installs PACKAGE where COMMAND isn't there and apt-get may be used.
needs_debian_package() {
    command -v "$1" >/dev/null 2>&1 && return
    install_debian_package "$2" || echo "$2 couldn't be installed: what needs $1 is skipped" >&2
}

install_debian_package() {
    command -v apt-get >/dev/null 2>&1 || return 1
    if [ "$(id -u)" = 0 ]; then as_root=""; elif command -v sudo >/dev/null 2>&1; then as_root=sudo; else return 1; fi
    $as_root apt-get update -qq && $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$1" >/dev/null
}

# make_venv FOLDER: Debian ships Python without what venv needs.
make_venv() {
    [ -x "$1/bin/pip" ] && return
    python3 -c 'import ensurepip, venv' 2>/dev/null || install_debian_package python3-venv || {
        echo "python3 has no venv module: install it (on Debian: apt-get install python3-venv) and try again" >&2
        exit 1
    }
    python3 -m venv --clear "$1"
}
