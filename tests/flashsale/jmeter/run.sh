#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Make a JMeter and run a command with it: run.sh DIRECTORY COMMAND [ARGUMENT...]
#
# Maven fetches the jars (once; it also keeps them in ~/.m2), and they are laid out as JMeter's home
# has to be: its own in lib/ext, all others in lib, its properties in bin. The command finds it
# through JMETER_HOME. No Java, no Maven or no network: status 77, a skip.
set -euo pipefail

directory=${1:?}
shift
pom=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/pom.xml
home=$directory/home
skipped=77
fetch_seconds=200 # of the 300 that a test may take

skip() {
    printf 'flashsale with JMeter: skipped: %s\n' "$*" >&2
    exit $skipped
}

for tool in java mvn; do
    command -v "$tool" >/dev/null ||
        skip "there is no $tool; apt-get install default-jdk-headless maven"
done

mkdir -p "$directory"
if [[ ! $directory/home.complete -nt $pom ]]; then
    rm -rf "${home:?}"
    mkdir -p "$home/lib/ext" "$home/lib/junit"
    timeout "$fetch_seconds" mvn -q -B -f "$pom" \
        org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
        "-DoutputDirectory=$home/lib" -DincludeScope=runtime >"$directory/maven.log" 2>&1 || {
        tail -n 5 "$directory/maven.log" >&2
        skip "Maven could not fetch it; is there a way to repo.maven.apache.org?"
    }
    (cd "$home" && python3 -m zipfile -e lib/ApacheJMeter_config-*.jar config)
    mv "$home/config/bin" "$home/bin"
    rm -rf "${home:?}/config"
    mv "$home"/lib/ApacheJMeter_*.jar "$home/lib/ext/"
    touch "$directory/home.complete"
fi

export JMETER_HOME=$home
exec "$@"
