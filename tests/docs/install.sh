#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# install.sh BUILD_DIR CMAKE GENERATOR CC VERSION
#
# Installs a build into a temporary prefix and makes the consumer program from there in each way
# that we document: pkg-config, pkg-config --static, and CMake with both targets. Each program must
# run, and the shared ones must really load the library that was just installed.
set -euo pipefail

build_dir=$1 cmake=$2 generator=$3 cc=$4 version=$5
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/pawl-install.XXXXXX")
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
warnings=(-Wall -Wextra -Werror)

fail() {
    echo "install: $*" >&2
    exit 1
}

# Run a consumer and compare where its libpawl comes from: "shared" or "static".
run_consumer() {
    local program=$1 expected=$2 loaded
    loaded=$(env LD_LIBRARY_PATH="$libdir" ldd "$program" 2>&1 | grep libpawl || true)
    case $expected in
    shared) [[ $loaded == *"$libdir/libpawl.so"* ]] || fail "$program does not load our libpawl" ;;
    static) [[ -z $loaded ]] || fail "$program loads a shared libpawl: $loaded" ;;
    esac
    local said
    said=$(env LD_LIBRARY_PATH="$libdir" "$program" "file://$work/locks") ||
        fail "$program failed: $said"
    [[ $said == "pawl $version: ok" ]] || fail "$program said '$said'"
    echo "$(basename "$program"): $said"
}

"$cmake" --install "$build_dir" --prefix "$prefix" >"$work/install.log" ||
    { cat "$work/install.log"; fail "cmake --install failed"; }
pc=$(find "$prefix" -name pawl.pc)
[[ -n $pc ]] || fail "no pawl.pc was installed"
libdir=$(dirname "$(dirname "$pc")")
[[ -f $prefix/include/pawl.h ]] || fail "no include/pawl.h was installed"
[[ $(find "$prefix/include" -type f | wc -l) == 1 ]] || fail "more than pawl.h was installed"

# A moved tree still works: nothing in it may remember the first prefix.
mv "$prefix" "$work/moved"
prefix=$work/moved
libdir=${libdir/$work\/prefix/$prefix}
if grep -rlI "$work/prefix" "$prefix"; then
    fail "the files above name the prefix they were installed to"
fi

export PKG_CONFIG_PATH=$libdir/pkgconfig
[[ $(pkg-config --modversion pawl) == "$version" ]] || fail "pawl.pc has another version"
mkdir "$work/locks" && chmod 700 "$work/locks"

# The words of pkg-config's answer are meant to be split.
# shellcheck disable=SC2046
"$cc" "${warnings[@]}" "$here/consumer/consumer.c" $(pkg-config --cflags --libs pawl) \
    -o "$work/pkg-config-shared"
run_consumer "$work/pkg-config-shared" shared

# glibc warns that a static program's getaddrinfo wants the shared libc; hence the log.
# shellcheck disable=SC2046
"$cc" "${warnings[@]}" -static "$here/consumer/consumer.c" \
    $(pkg-config --static --cflags --libs pawl) -o "$work/pkg-config-static" 2>"$work/link.log" ||
    { cat "$work/link.log"; fail "static linking failed"; }
run_consumer "$work/pkg-config-static" static

build_with_cmake() {
    "$cmake" -S "$here/consumer" -B "$work/cmake" -G "$generator" \
        -DCMAKE_C_COMPILER="$cc" \
        -DCMAKE_PREFIX_PATH="$prefix" -DCONSUMER_VERSION="$version" &&
        "$cmake" --build "$work/cmake"
}
build_with_cmake >"$work/cmake.log" 2>&1 ||
    { cat "$work/cmake.log"; fail "the CMake consumer does not build"; }
run_consumer "$work/cmake/cmake-shared" shared
run_consumer "$work/cmake/cmake-static" static

echo "[  PASSED  ] 4 test(s)."
