#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the libraries show to the outside: exports.py HEADER SHARED_LIBRARY STATIC_LIBRARY NM

The shared library exports exactly the functions that the header declares with PAWL_API, needs
nothing but libc, and can be loaded by a program that is running already, for which its thread-local
storage has to be small. In the static one every global symbol carries our prefix.
"""

import ctypes
import os
import re
import subprocess
import sys

import tree

# The loader, libc, and what was a part of libc's family before glibc 2.34.
THREAD_LOCAL_MAX = 512  # bytes; a third of what glibc has for all libraries that are loaded late
LIBC = re.compile(r"^(libc|libpthread|ld-linux[-\w]*|libgcc_s)\.so(\.\d+)+$")


def declared_functions(text):
    """name -> (line, whether marked PAWL_API) of the functions that a header declares."""
    code = tree.without_directives(tree.without_comments(text))
    found = {}
    position = 0
    for statement in re.split(r"[;{}]", code):
        start = position
        position += len(statement) + 1
        match = re.search(r"\b(pawl_\w+)\s*\(", statement)
        if match and not re.match(r"\s*typedef\b", statement):
            line = tree.line_of(code, start + match.start())
            found[match.group(1)] = (line, "PAWL_API" in statement.split())
    return found


def symbols(nm, arguments, library):
    command = [nm, *arguments, "--defined-only", library]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = [line.split() for line in output.splitlines()]
    return {fields[2].split("@")[0] for fields in found if len(fields) == 3}


def check_shared(header, functions, library, nm, offences):
    exported = symbols(nm, ["-D"], library)
    for name, (line, marked) in functions.items():
        if not marked:
            offences.append((header, line, f"{name} is declared without PAWL_API; mark it"))
        elif name not in exported:
            sentence = f"{name} is declared but {os.path.basename(library)} does not export it"
            offences.append((header, line, sentence + "; define it"))
    for name in exported - set(functions):
        sentence = f"exports {name}, which pawl.h does not declare; make it static or pawl__"
        offences.append((library, 0, sentence))


def check_needed(library, offences):
    command = ["readelf", "-d", "-W", library]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for name in re.findall(r"\(NEEDED\).*\[(.*)\]", output):
        if not LIBC.match(name):
            offences.append((library, 0, f"needs {name}; libpawl needs libc alone"))


def check_thread_local(library, offences):
    command = ["readelf", "-l", "-W", library]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    match = re.search(r"^\s*TLS(?:\s+0x[0-9a-f]+){4}\s+(0x[0-9a-f]+)", output, re.MULTILINE)
    size = int(match.group(1), 16) if match else 0
    if size > THREAD_LOCAL_MAX:
        sentence = f"takes {size} bytes of thread-local storage; {THREAD_LOCAL_MAX} are allowed"
        offences.append((library, 0, sentence))
    try:
        ctypes.CDLL(library)
    except OSError as error:
        offences.append((library, 0, f"cannot be loaded by a running program: {error}"))


def check_static(library, nm, offences):
    for name in symbols(nm, ["-g"], library):
        if not name.startswith("pawl_"):
            sentence = f"defines the global symbol {name}; make it static or name it pawl__..."
            offences.append((library, 0, sentence))


def main():
    header = tree.argument(1, "pawl.h")
    shared = tree.argument(2, "the shared library")
    static = tree.argument(3, "the static library")
    nm = tree.argument(4, "nm")
    with open(header, encoding="utf-8") as file:
        functions = declared_functions(file.read())
    offences = []
    check_shared(header, functions, shared, nm, offences)
    check_needed(shared, offences)
    check_thread_local(shared, offences)
    check_static(static, nm, offences)
    if not functions:
        offences.append((header, 1, "declares no functions; is this pawl.h?"))
    return tree.report("exports", offences, f"{len(functions)} functions declared and exported")


if __name__ == "__main__":
    sys.exit(main())
