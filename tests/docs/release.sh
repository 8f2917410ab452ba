#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# release.sh ROOT CC NM PYTHON VERSION
#
# What scripts/release builds and installs works: the library alone, to save time, but recorded,
# trained and built by the recording. A consumer locks with it in files and on a private Redis, with
# the shared library and with the static one; the symbols are those of any other build; a second
# build uses the recording again, and an interrupted one does not lose it; and nothing is left
# behind.
set -euo pipefail

root=$1 cc=$2 nm=$3 python=$4 version=$5
work=$(mktemp -d "${TMPDIR:-/tmp}/pawl-release.XXXXXX")
redis=''
clean_up() {
    [[ -z $redis ]] || kill "$redis" 2>/dev/null || true
    wait
    rm -rf "$work"
}
trap clean_up EXIT
build=$work/build prefix=$work/prefix

passed=0
pass() {
    passed=$((passed + 1))
    echo "ok: $*"
}
fail() {
    echo "release: $*" >&2
    echo "[  PASSED  ] $passed test(s)."
    echo "[  FAILED  ] 1 test(s)."
    exit 1
}

release() {
    CC=$cc "$root/scripts/release" --build "$build" "$@" >"$work/log" 2>&1 ||
        { cat "$work/log"; fail "scripts/release $* failed"; }
}

# With warnings as errors, for gcc warns of every function that is not in the recording.
options=(-DPAWL_COMMAND=OFF -DPAWL_WERROR=ON)
mkdir -p "$build/pawl-profile/of-other-sources"
release --prefix "$prefix" -- "${options[@]}"
if grep -q 'is not gcc 12 or later' "$work/log"; then
    echo "skipped: $cc cannot build by a profile"
    exit 77
fi
grep -q '2/3 training' "$work/log" || { cat "$work/log"; fail "there was no training"; }
[[ ! -e $build-record ]] || fail "$build-record is left behind"
recording=("$build"/pawl-profile/*)
((${#recording[@]} == 1)) || fail "more than one recording: ${recording[*]}"
[[ -s ${recording[0]}/src#CMakeFiles#pawl_objects.dir#base#alloc.c.gcda ]] ||
    fail "no recording of src/base/alloc.c in $build/pawl-profile"
grep -q -- "-fprofile-use=${recording[0]} .*base/alloc.c" "$build/compile_commands.json" ||
    fail "the library was not built by the recording"
pass "recorded, trained, built by the recording"

release -- "${options[@]}"
grep -q 'by the recording that is there' "$work/log" || { cat "$work/log"; fail "trained again"; }
pass "a second build uses the recording again"

release "--prefix=$work/elsewhere" -- "${options[@]}"
[[ -e $work/elsewhere/include/pawl.h ]] || fail "another prefix is not heeded"
grep -q "PKG_CONFIG_PATH=$work/elsewhere" "$work/log" || fail "it does not say how to use a prefix"
for empty in --prefix= --build= --target=; do
    status=0
    "$root/scripts/release" "$empty" >"$work/log" 2>&1 || status=$?
    [[ $status == 64 ]] || fail "$empty: status $status"
    grep -q -- "${empty%=} needs a value" "$work/log" || fail "$empty: $(cat "$work/log")"
done
pass "another prefix is heeded, an empty one refused"

# A target that compiles nothing: only the settings matter here.
CFLAGS='-g -O1' release "--build=$work/plain" --plain --target=help -- "${options[@]}"
grep -q -- '-O1 .*base/alloc.c' "$work/plain/compile_commands.json" || fail "-O1 is not heeded"
if grep -q -- '-O2' "$work/plain/compile_commands.json"; then
    fail "-O2 stands beside the -O1 of CFLAGS"
fi
pass "the optimisation level of CFLAGS is heeded"

libdir=$(dirname "$(dirname "$(find "$prefix" -name pawl.pc)")")
"$python" -B "$root/tests/style/exports.py" "$prefix/include/pawl.h" "$libdir/libpawl.so" \
    "$libdir/libpawl.a" "$nm" >"$work/log" 2>&1 || { cat "$work/log"; fail "other symbols"; }
pass "the symbols are those of pawl.h"
readelf -SW "$libdir/libpawl.a" >"$work/log"
if grep -q 'gnu.lto' "$work/log"; then
    fail "the static library has parts that only this compiler can read"
fi
pass "the static library is for any compiler"

export PKG_CONFIG_PATH=$libdir/pkgconfig
consumer=$root/tests/docs/consumer/consumer.c
# The words of pkg-config's answer are meant to be split.
# shellcheck disable=SC2046
"$cc" "$consumer" $(pkg-config --cflags --libs pawl) -o "$work/shared"
# shellcheck disable=SC2046
"$cc" "$consumer" $(pkg-config --cflags pawl) "$libdir/libpawl.a" -pthread -o "$work/static"

PATH=$PATH:/usr/sbin
if ! command -v redis-server >/dev/null; then
    fail "no redis-server"
fi
redis-server --port 0 --unixsocket "$work/redis.sock" --unixsocketperm 700 --dir "$work" --save '' \
    >"$work/redis.log" 2>&1 &
redis=$!
for ((i = 0; i < 1000; i++)); do
    [[ ! -S $work/redis.sock ]] || break
    sleep 0.02
done
mkdir -m 700 "$work/locks"
for program in shared static; do
    for url in "file://$work/locks" "redis+unix://$work/redis.sock"; do
        said=$(LD_LIBRARY_PATH=$libdir "$work/$program" "$url") || fail "$program on $url failed"
        [[ $said == "pawl $version: ok" ]] || fail "$program on $url said '$said'"
        pass "$program: ${url%%:*}"
    done
done

if cmake -S "$root" -B "$build" -DPAWL_PROFILE="$work/nothing" >"$work/log" 2>&1 ||
    ! grep -q 'no recording in' "$work/log"; then
    cat "$work/log"
    fail "a recording that is not there was not refused"
fi
pass "a recording that is not there is refused"

# Other settings need another recording; this one is interrupted before it is there.
mkdir "$work/bin"
cat >"$work/bin/cmake" <<TEXT
#!/bin/sh
[ "\$1" != --version ] || exec $(command -v cmake) --version
kill -TERM \$PPID
TEXT
chmod 755 "$work/bin/cmake"
status=0
PATH=$work/bin:$PATH CFLAGS=-Os CC=$cc "$root/scripts/release" --build "$build" \
    -- "${options[@]}" >"$work/log" 2>&1 || status=$?
[[ $status == 143 ]] || { cat "$work/log"; fail "interrupted: status $status"; }
grep -q '1/3 building' "$work/log" || { cat "$work/log"; fail "it did not begin to record"; }
grep -q -- '-Os of CFLAGS is for the command' "$work/log" || fail "no word about -O3"
[[ -d ${recording[0]} ]] || fail "the interruption cost the recording that was there"
[[ ! -e $build-record ]] || fail "$build-record is left behind by the interruption"
pass "an interrupted recording costs nothing"

echo "[  PASSED  ] $passed test(s)."
