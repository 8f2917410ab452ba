#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Test against one version of Redisson: run.sh VERSION DIRECTORY PROGRAM [ARGUMENT...]
#
# Fetches Redisson and what it needs by Maven into DIRECTORY/lib (once; Maven also keeps them in
# ~/.m2), compiles the Java half into DIRECTORY/classes, and runs the program, which finds both
# through PAWL_INTEROP_CLASSPATH. No Java, no Maven or no network: status 77, a skip. A Java half
# that does not compile is a failure.
set -euo pipefail

version=$1 directory=${2:?}
shift 2
java_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/java" && pwd)
skipped=77
fetch_seconds=200 # of the 300 that a test may take

skip() {
    printf 'interop with Redisson %s: skipped: %s\n' "$version" "$*" >&2
    exit $skipped
}

for tool in java javac mvn; do
    command -v "$tool" >/dev/null ||
        skip "there is no $tool; apt-get install default-jdk-headless maven"
done

mkdir -p "$directory"
if [[ ! $directory/lib.complete -nt $java_dir/pom.xml ]]; then
    rm -rf "${directory:?}/lib"
    timeout "$fetch_seconds" mvn -q -B -f "$java_dir/pom.xml" "-Dredisson.version=$version" \
        org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
        "-DoutputDirectory=$directory/lib" -DincludeScope=runtime >"$directory/maven.log" 2>&1 || {
        tail -n 5 "$directory/maven.log" >&2
        skip "Maven could not fetch it; is there a way to repo.maven.apache.org?"
    }
    touch "$directory/lib.complete"
fi

rm -rf "${directory:?}/classes"
javac -Werror -Xlint:all,-processing,-classfile -cp "$directory/lib/*" -d "$directory/classes" \
    "$java_dir"/peer/*.java

export PAWL_INTEROP_CLASSPATH="$directory/classes:$directory/lib/*"
export PAWL_INTEROP_VERSION=$version
exec "$@"
