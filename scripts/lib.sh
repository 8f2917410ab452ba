# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What scripts/test and scripts/demo share: progress lines, installing packages, and temporary
# directories and processes that are gone when the script is, however it ends.
#
# Source it after `set -euo pipefail`. It moves to the root of the tree. A script that wants to do
# something at its end defines at_exit(); the EXIT trap is ours.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 70
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin # where ip, nft and redis-server may hide from a user

# shellcheck disable=SC2034 # for the scripts
EX_USAGE=64
EX_UNAVAILABLE=69

# ===== Saying what happens =====

if [[ -t 1 && -z ${NO_COLOR:-} ]]; then
    bold=$'\e[1m' red=$'\e[31m' plain=$'\e[0m'
else
    bold='' red='' plain=''
fi

# A line that says what is going on.
progress() {
    printf '%s==> %s%s\n' "$bold" "$*" "$plain"
}

# A complaint.
complain() {
    printf '%s%s: %s%s\n' "$red" "$(basename "$0")" "$*" "$plain" >&2
}

# Complain and end with a status.
die() {
    local status=$1
    shift
    complain "$@"
    exit "$status"
}

# ===== Cleaning up =====

temp_dirs=()
child_pids=()

# A new private directory in the variable $1, removed at the end.
make_temp_dir() {
    local -n temp_dir_out=$1
    temp_dir_out=$(mktemp -d "${TMPDIR:-/tmp}/pawl-$(basename "$0").XXXXXX")
    temp_dirs+=("$temp_dir_out")
}

# Start a process in the background, its process id in the variable $1. It is ended with the script.
spawn() {
    local -n spawn_pid_out=$1
    shift
    "$@" &
    spawn_pid_out=$!
    child_pids+=("$spawn_pid_out")
}

# Wait until a command succeeds, at most so many seconds: wait_until 5 test -e FILE
wait_until() {
    local deadline=$((SECONDS + $1 + 1))
    shift
    until "$@"; do
        ((SECONDS < deadline)) || return 1
        sleep 0.02
    done
}

# Whether a child of ours has ended (a zombie has).
child_has_ended() {
    [[ $(ps -o stat= -p "$1" 2>/dev/null) == Z* ]] || ! kill -0 "$1" 2>/dev/null
}

# End one process that spawn started: politely, then by force.
reap() {
    local pid=$1
    kill "$pid" 2>/dev/null || true
    wait_until 5 child_has_ended "$pid" || kill -KILL "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
}

clean_up() {
    local status=$? pid dir
    trap - EXIT INT TERM HUP
    for pid in "${child_pids[@]}"; do
        reap "$pid"
    done
    for dir in "${temp_dirs[@]}"; do
        rm -rf "$dir"
    done
    remove_start_ban
    if declare -F at_exit >/dev/null; then
        at_exit "$status" || status=$?
    fi
    exit "$status"
}

trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# ===== Packages =====

# What can be needed: how to see that it is there, and the Debian/Ubuntu packages that bring it.
# Functions, because some things are more than a command in the path.
has_compiler() {
    echo 'int main(void){return 0;}' | cc -x c -include stdio.h -o /dev/null - 2>/dev/null
}
has_cmake() {
    local found
    found=$(cmake --version 2>/dev/null | sed -n 's/^cmake version //p')
    [[ -n $found && $(printf '%s\n3.22\n' "$found" | sort -V | head -n 1) == 3.22 ]]
}
has_module() { pkg-config --exists "$1" 2>/dev/null; }
has_command() { command -v "$1" >/dev/null; }
# The versions of these tools disagree, so the style tests want 14. A newer distribution may not
# have it any more: then it is not missed, and its tests are skipped.
lacks_llvm_tool() {
    has_command "$1-14" && return 1
    [[ $("$1" --version 2>/dev/null) == *"version 14."* ]] && return 1
    [[ $lists_are_fresh == no ]] && may_install && return 0
    [[ -n $(apt-cache show "$1-14" 2>/dev/null) ]]
}
has_fuzzer() {
    echo 'int LLVMFuzzerTestOneInput(const char *d, long n){(void)d;(void)n;return 0;}' |
        clang -fsanitize=fuzzer,address -x c -o /dev/null - 2>/dev/null
}
# nginx with Lua and a client of Redis for it.
has_nginx() {
    has_command nginx && [[ -e /usr/lib/nginx/modules/ngx_http_lua_module.so ]] &&
        [[ -e /usr/share/lua/5.1/nginx/redis.lua ]]
}
# Debian's python3 may not be the first in the path.
has_yaml() {
    python3 -c 'import yaml' 2>/dev/null || /usr/bin/python3 -c 'import yaml' 2>/dev/null
}

# need WHAT...: put the packages of everything among WHAT that is not there into missing_packages.
missing_packages=()
lists_are_fresh=no
need() {
    local what
    for what in "$@"; do
        case $what in
        compiler) has_compiler || missing_packages+=(gcc libc6-dev) ;;
        cmake) has_cmake || missing_packages+=(cmake) ;;
        ninja) has_command ninja || missing_packages+=(ninja-build) ;;
        pkg-config) has_command pkg-config || missing_packages+=(pkg-config) ;;
        python3) has_command python3 || missing_packages+=(python3) ;;
        redis) has_command redis-server || missing_packages+=(redis-server) ;;
        redis-cli) has_command redis-cli || missing_packages+=(redis-tools) ;;
        hiredis) has_module hiredis || missing_packages+=(libhiredis-dev) ;;
        microhttpd) has_module libmicrohttpd || missing_packages+=(libmicrohttpd-dev) ;;
        jansson) has_module jansson || missing_packages+=(libjansson-dev) ;;
        cmocka) has_module cmocka || missing_packages+=(libcmocka-dev) ;;
        clang-format | clang-tidy) ! lacks_llvm_tool "$what" || missing_packages+=("$what-14") ;;
        fuzzer) has_fuzzer || missing_packages+=(clang "$(clang_runtime_package)") ;;
        strace) has_command strace || missing_packages+=(strace) ;;
        ip) has_command ip || missing_packages+=(iproute2) ;;
        nft) has_command nft || missing_packages+=(nftables) ;;
        unshare) has_command unshare && has_command setarch || missing_packages+=(util-linux) ;;
        ps) has_command ps || missing_packages+=(procps) ;;
        tmux | zsh | fish | less | wrk) has_command "$what" || missing_packages+=("$what") ;;
        vi) has_command vi || missing_packages+=(vim-tiny) ;;
        java) has_command java && has_command javac || missing_packages+=(default-jdk-headless) ;;
        node) has_command node && has_command npm || missing_packages+=(nodejs npm) ;;
        chromium)
            has_command chromium || missing_packages+=(chromium)
            [[ -d /usr/share/fonts/truetype/dejavu ]] || missing_packages+=(fonts-dejavu-core)
            ;;
        maven) has_command mvn || missing_packages+=(maven) ;;
        nginx)
            has_nginx ||
                missing_packages+=(nginx-extras libnginx-mod-http-lua lua-nginx-redis)
            ;;
        yaml) has_yaml || missing_packages+=(python3-yaml) ;;
        spin) has_command spin || missing_packages+=(spin) ;;
        *) die 70 "need: I do not know '$what'" ;;
        esac
    done
}

clang_runtime_package() {
    local version
    version=$(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\)$/\1/p')
    echo "libclang-rt-${version:-14}-dev"
}

# Installing a server must not start it: it would sit on its default port. policy-rc.d is Debian's
# way to say so; one that is there already is the administrator's, and is left alone.
policy=/usr/sbin/policy-rc.d
start_ban_is_ours=no
forbid_start() {
    [[ -e $policy ]] && return
    start_ban_is_ours=yes
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
    as_root chmod 755 "$policy"
}
remove_start_ban() {
    [[ $start_ban_is_ours == yes ]] || return 0
    start_ban_is_ours=no
    as_root rm -f "$policy"
}

as_root() {
    if [[ $(id -u) == 0 ]]; then
        "$@"
    else
        sudo -n "$@"
    fi
}
may_install() {
    has_command apt-get && { [[ $(id -u) == 0 ]] || sudo -n true 2>/dev/null; }
}

apt_get() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 "$@"
}

# Install everything among WHAT that is missing, or say what it is and end with status 69.
install_needed() {
    missing_packages=()
    need "$@"
    ((${#missing_packages[@]} > 0)) || return 0
    if ! may_install; then
        complain "these Debian/Ubuntu packages are missing: ${missing_packages[*]}"
        complain "I may not install them (no root, no sudo without a password, or no apt-get). Run:"
        printf '    sudo apt-get install -y --no-install-recommends %s\n' \
            "${missing_packages[*]}" >&2
        exit "$EX_UNAVAILABLE"
    fi

    local log
    make_temp_dir log
    log+=/apt.log
    if [[ $lists_are_fresh == no ]]; then
        progress "updating the package lists"
        apt_get update >"$log" 2>&1 || complain "apt-get update failed; trying with what is known"
        lists_are_fresh=yes
        missing_packages=()
        need "$@"
        ((${#missing_packages[@]} > 0)) || return 0
    fi
    progress "installing ${missing_packages[*]}"
    local server new_servers=()
    for server in redis-server nginx; do
        has_command "$server" || new_servers+=("$server")
    done
    forbid_start
    if ! apt_get install --no-install-recommends "${missing_packages[@]}" >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        die "$EX_UNAVAILABLE" "apt-get could not install: ${missing_packages[*]}"
    fi
    remove_start_ban
    # Nor shall they start with the next boot, if they are here for our sake only.
    for server in "${new_servers[@]}"; do
        ! has_command systemctl || as_root systemctl disable "$server" >/dev/null 2>&1 || true
    done

    missing_packages=()
    need "$@"
    ((${#missing_packages[@]} == 0)) ||
        die "$EX_UNAVAILABLE" "installed, but still not usable: ${missing_packages[*]}"
}
