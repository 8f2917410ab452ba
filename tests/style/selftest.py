#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every rule of the style checkers can fail: selftest.py CC NM

Each case is a small tree that is in order but for one file, and the line and words that the checker
must answer with. The same tree without that file must pass, so a checker that always complains is
found out as well.
"""

import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SPDX = "SPDX-License-Identifier: Apache-2.0"
TOP = f"/* {SPDX} */\n/* What it is for. */\n"
SKIPPED = 77

# A tree that is in order: every layer, two engines, a program.
GOOD = {
    "include/pawl.h": TOP + "#ifndef PAWL_H\n#define PAWL_H\n#endif\n",
    "src/pawl.c": TOP + '#include "pawl.h"\n#include "core/client.h"\n',
    "src/core/client.h": TOP + "#ifndef PAWL_CORE_CLIENT_H\n#define PAWL_CORE_CLIENT_H\n#endif\n",
    "src/core/client.c": TOP + '#include "core/client.h"\n#include "core/engine.h"\n',
    "src/core/engine.h": TOP + "#ifndef PAWL_CORE_ENGINE_H\n#define PAWL_CORE_ENGINE_H\n#endif\n",
    "src/core/engines.c": TOP + '#include "engine/file/file.h"\n#include "engine/redis/redis.h"\n',
    "src/engine/file/file.h": TOP
    + "#ifndef PAWL_FILE_FILE_H\n#define PAWL_FILE_FILE_H\n#endif\n",
    "src/engine/file/file.c": TOP
    + '#include "engine/file/file.h"\n#include "core/engine.h"\n\n'
    + "int pawl__file_seed(void)\n{\n    return CLOCK_REALTIME;\n}\n",
    "src/engine/redis/redis.h": TOP
    + "#ifndef PAWL_ENGINE_REDIS_REDIS_H\n#define PAWL_ENGINE_REDIS_REDIS_H\n#endif\n",
    "src/engine/redis/redis.c": TOP
    + '#include "engine/redis/lua_scripts.h"\n#include "net/stream.h"\n#include "pawl.h"\n',
    "src/engine/redis/scripts/acquire.lua": f"-- {SPDX}\nreturn 1\n",
    "src/net/stream.h": TOP + "#ifndef PAWL_NET_STREAM_H\n#define PAWL_NET_STREAM_H\n#endif\n",
    "src/net/stream.c": TOP + '#include "stream.h"\n#include "base/clock.h"\n#include <time.h>\n',
    "src/base/clock.h": TOP + "#ifndef PAWL_BASE_CLOCK_H\n#define PAWL_BASE_CLOCK_H\n#endif\n",
    "src/base/clock.c": TOP
    + '#include "base/clock.h"\n\n/* time(NULL) would be wrong. */\nint pawl__now(void)\n{\n'
    + '    if (thread_exit(1)) {\n        log("printf(\\"// no comment\\") exit(1)", \'"\');\n'
    + "    } else if (self->time(2)) {\n        do {\n        } while (runtime(3));\n    }\n"
    + "    while (4) {\n    }\n    return 0;\n}\n",
    "cli/main.c": TOP + '#include "run/run.h"\n#include "text/text.h"\n',
    "cli/run/run.h": TOP + "#ifndef PAWL_RUN_RUN_H\n#define PAWL_RUN_RUN_H\n#endif\n",
    "cli/run/run.c": TOP + '#include "run/run.h"\n#include "text/text.h"\n',
    "cli/text/text.h": TOP + "#ifndef PAWL_TEXT_TEXT_H\n#define PAWL_TEXT_TEXT_H\n#endif\n",
    "apps/flashsale/main.c": TOP + '#include "commands.h"\n#include "shop/order.h"\n',
    "apps/flashsale/commands.h": TOP
    + "#ifndef FLASHSALE_COMMANDS_H\n#define FLASHSALE_COMMANDS_H\n#endif\n",
    "apps/flashsale/shop/order.h": TOP
    + "#ifndef FLASHSALE_SHOP_ORDER_H\n#define FLASHSALE_SHOP_ORDER_H\n#endif\n",
    "apps/flashsale/serve/serve.c": TOP
    + '#include "commands.h"\n#include "embedded.h"\n#include "shop/order.h"\n',
    "examples/01_hello.c": TOP + "#include <pawl.h>\n#include <stdio.h>\n",
    "tests/unit/clock.c": TOP + '#include "base/clock.h"\n#include <cmocka.h>\n',
    "scripts/test": f"#!/usr/bin/env bash\n# {SPDX}\n",
    "CMakeLists.txt": f"# {SPDX}\n",
}


def body(lines):
    return TOP + "\nint pawl__f(void)\n{\n" + lines + "}\n"


# checker, the file that is wrong, its text, the line, and a word of the complaint
CASES = [
    ("layering", "src/net/a.c", TOP + '#include "core/client.h"\n', 3, "go down only"),
    ("layering", "src/base/a.c", TOP + '#include "net/stream.h"\n', 3, "go down only"),
    ("layering", "src/base/a.c", TOP + "#include <net/stream.h>\n", 3, "go down only"),
    ("layering", "src/net/a.c", TOP + '#include "core/engine.h"\n', 3, "go down only"),
    ("layering", "src/engine/redis/a.c", TOP + '#include "core/client.h"\n', 3, "core/engine.h"),
    ("layering", "src/engine/redis/a.c", TOP + '#include "engine/file/file.h"\n', 3, "another"),
    ("layering", "src/core/a.c", TOP + '#include "engine/file/file.h"\n', 3, "names engines"),
    ("layering", "src/a.c", TOP + '#include "engine/file/file.h"\n', 3, "names engines"),
    ("layering", "src/core/a.c", TOP + "int x = pawl__engine_redis;\n", 3, "names engines"),
    ("layering", "src/core/a.c", TOP + "int x = pawl__file_engine;\n", 3, "names engines"),
    ("layering", "src/core/a.c", TOP + '#include "../base/clock.h"\n', 3, "without .."),
    ("layering", "src/core/a.c", TOP + '#include "nowhere.h"\n', 3, "no such file"),
    ("layering", "src/odd/a.c", TOP, 1, "no layer"),
    ("layering", "examples/a.c", TOP + '#include "core/client.h"\n', 3, "pawl.h only"),
    ("layering", "cli/a.c", TOP + "#include <base/clock.h>\n", 3, "pawl.h only"),
    ("layering", "cli/text/a.c", TOP + '#include "run/run.h"\n', 3, "go down only"),
    ("layering", "cli/top/a.c", TOP + '#include "run/run.h"\n', 3, "no subcommand"),
    ("layering", "apps/shop/a.c", TOP + '#include "net/stream.h"\n', 3, "pawl.h only"),
    ("layering", "apps/flashsale/common/a.c", TOP + '#include "shop/order.h"\n', 3, "go down only"),
    ("layering", "apps/flashsale/odd/a.c", TOP + '#include "shop/order.h"\n', 3, "no layer"),
    ("source", "src/core/a.c", body("    time(0);\n"), 6, "wall clock"),
    ("source", "src/core/a.c", body("    gettimeofday(0, 0);\n"), 6, "wall clock"),
    ("source", "src/core/a.c", body("    f(CLOCK_REALTIME);\n"), 6, "wall clock"),
    ("source", "src/core/a.c", body("    clock_gettime(1, 0);\n"), 6, "pawl__now_us"),
    ("source", "src/core/a.c", body("    usleep(1);\n"), 6, "bare sleep"),
    ("source", "src/core/a.c", body("    (void)nanosleep(0, 0);\n"), 6, "bare sleep"),
    ("source", "tests/fault/a.c", body("    sleep(1);\n"), 6, "bare sleep"),
    ("source", "src/core/a.c", body('    printf("x");\n'), 6, "never prints"),
    ("source", "src/core/a.c", body('    fprintf(stderr, "x");\n'), 6, "never prints"),
    ("source", "src/core/a.c", body("    abort();\n"), 6, "never ends"),
    ("source", "src/core/a.c", body("    exit (1);\n"), 6, "never ends"),
    ("source", "src/core/a.c", body("    sigaction(1, 0, 0);\n"), 6, "signal handlers"),
    ("source", "src/core/a.c", body("    strcpy(a, b);\n"), 6, "copy"),
    ("source", "src/core/a.c", body("    strcat(a, b);\n"), 6, "copy"),
    ("source", "src/core/a.c", body('    sprintf(a, "b");\n'), 6, "copy"),
    ("source", "src/core/a.c", TOP + "int x; /* " + 90 * "y" + " */\n", 3, "columns"),
    ("source", "src/core/a.c", TOP + "int x; // y\n", 3, "// comment"),
    ("source", "src/core/a.c", TOP + "int x; /* TODO: y */\n", 3, "TODO"),
    ("source", "scripts/a", f"#!/bin/sh\n# {SPDX}\n# FIXME\n", 3, "FIXME"),
    ("source", "src/core/a.c", TOP + "int x; \n", 3, "white space"),
    ("source", "src/core/a.c", TOP + "int x;", 3, "newline"),
    ("source", "src/core/a.c", "/* What it is for. */\n", 1, "SPDX"),
    ("source", "src/core/a.c", f"/* {SPDX} */\n\nint x;\n", 3, "opening comment"),
    ("source", "scripts/a", "#!/bin/sh\n", 1, "SPDX"),
    ("source", "src/engine/redis/scripts/a.lua", "return 1\n", 1, "SPDX"),
    ("source", "src/core/a.h", TOP + "#ifndef A_H\n#define A_H\n#endif\n", 3, "guard"),
    ("source", "src/core/a.h", TOP + "#pragma once\n", 1, "guard"),
    ("source", "apps/a/a.h", TOP + "#ifndef PAWL_A_H\n#define PAWL_A_H\n#endif\n", 3, "guard"),
    ("source", "apps/a/a.lua", "return 1\n", 1, "SPDX"),
    ("source", "src/core/a.c", body("    if (a)\n        b();\n"), 6, "if without"),
    ("source", "src/core/a.c", body("    if (a) {\n    } else\n        b();\n"), 7, "else without"),
    ("source", "src/core/a.c", body("    for (;;)\n        b();\n"), 6, "for without"),
    ("source", "src/core/a.c", body("    while (f(a));\n"), 6, "while without"),
    ("source", "src/core/a.c", TOP + "\n" * 599, 601, "601 lines"),
    ("source", "src/core/a.c", body("    a();\n" * 68), 4, "function of 71 lines"),
    ("format", "src/core/a.c", TOP + "int  x;\n", 3, "clang-formatted"),
    ("format", "tests/unit/a.c", TOP + "int *f(void) {\n    return 0;\n}\n", 3, "clang-formatted"),
]

# file, source, exit status, words in the answer
TIDY_CASES = [
    ("src/a.c", "int pawl__f(int *a) { *a = 1; return *a; }\n", 0, "1 files in order"),
    ("src/a.c", "int pawl__f(void) { int *a = 0; return *a; }\n", 1, "src/a.c:1:40: error"),
    ("src/a.c", "int pawl__f(void) { int unused; return 1; }\n", 1, "unused variable"),
    ("cli/b/a.c", "int f(void) { int *a = 0; return *a; }\n", 1, "cli/b/a.c:1:34: error"),
    ("apps/b/a.c", "int f(void) { int *a = 0; return *a; }\n", 1, "apps/b/a.c:1:34: error"),
    ("tests/a.c", "int f(void) { int *a = 0; return *a; }\n", 1, "is this the build?"),
]

API = '#define PAWL_API __attribute__((visibility("default")))\n'
HEADER = API + "typedef void (*pawl_callback)(int);\nPAWL_API int pawl_one(void);\n"
ONE = '#include "pawl.h"\nint pawl_one(void) { return 1; }\n'

# header, source, compiler flags, exit status, words in the answer
EXPORT_CASES = [
    (HEADER, ONE, [], 0, "1 functions declared and exported"),
    (HEADER, ONE + "PAWL_API int pawl_two(void) { return 2; }\n", [], 1, "exports pawl_two"),
    (HEADER, ONE, ["-lm", "-Wl,--no-as-needed"], 0, "declared and exported"),
    (HEADER, ONE, ["-Wl,--no-as-needed", "-lm"], 1, "needs libm.so.6"),
    (HEADER + "PAWL_API int\n    pawl_two(void);\n", ONE, [], 1, ":5: pawl_two is declared but"),
    (HEADER + "int pawl_two(void);\n", ONE, [], 1, ":4: pawl_two is declared without PAWL_API"),
    (HEADER, ONE + "int odd(void) { return 2; }\n", [], 1, "defines the global symbol odd"),
    ("/* PAWL_API int pawl_one(void); */\n", "int pawl__x;\n", [], 1, "declares no functions"),
]


def write_tree(root, content):
    for path, text in content.items():
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)


def check(checker, *arguments):
    """Exit status and output of a checker."""
    command = [sys.executable, "-B", f"{HERE}/{checker}.py", *arguments]
    result = subprocess.run(command, capture_output=True, text=True)
    return result.returncode, result.stdout + result.stderr


def try_tree(checker, files):
    with open(f"{HERE}/../../.clang-format", encoding="utf-8") as file:
        files = {".clang-format": file.read(), **files}
    with tempfile.TemporaryDirectory(prefix="pawl-style-") as root:
        write_tree(root, files)
        return check(checker, root)


def try_good(checker):
    status, output = try_tree(checker, GOOD)
    if status not in (0, SKIPPED):
        return f"complains about a tree that is in order:\n{output}"
    return None


def try_bad(checker, path, text, line, word):
    status, output = try_tree(checker, {**GOOD, path: text})
    if checker == "format" and status == SKIPPED:
        return None
    found = [row for row in output.splitlines() if row.startswith(f"{path}:{line}:")]
    if status != 1 or not any(word in row for row in found):
        return f"did not complain about {path}:{line} ({word}):\n{output}"
    return None


def try_tidy(name, source, wanted_status, word):
    with open(f"{HERE}/../../.clang-tidy", encoding="utf-8") as file:
        files = {".clang-tidy": file.read(), name: source}
    with tempfile.TemporaryDirectory(prefix="pawl-style-") as root:
        path = os.path.join(root, name)
        entry = {"directory": root, "file": path, "command": f"cc -Wall -Werror -c {path}"}
        write_tree(root, {**files, "compile_commands.json": json.dumps([entry])})
        status, output = check("tidy", root, root)
    if status != SKIPPED and (status != wanted_status or word not in output):
        return f"exit status {status}, expected {wanted_status} and '{word}':\n{output}"
    return None


def try_exports(compiler, nm, case):
    header, source, flags, wanted_status, word = case
    with tempfile.TemporaryDirectory(prefix="pawl-style-") as root:
        write_tree(root, {"pawl.h": header, "a.c": source})
        compile_ = [compiler, "-fPIC", "-fvisibility=hidden"]
        subprocess.run([*compile_, "-c", "a.c", "-o", "a.o"], cwd=root, check=True)
        link = [*compile_, "-shared", "a.o", *flags, "-o", "libpawl.so"]
        subprocess.run(link, cwd=root, check=True)
        subprocess.run(["ar", "rcs", "libpawl.a", "a.o"], cwd=root, check=True)
        paths = [os.path.join(root, name) for name in ("pawl.h", "libpawl.so", "libpawl.a")]
        status, output = check("exports", *paths, nm)
    if status != wanted_status or word not in output:
        return f"exit status {status}, expected {wanted_status} and '{word}':\n{output}"
    return None


def main():
    compiler, nm = sys.argv[1:3]
    results = [(f"{c}: a good tree", try_good(c)) for c in ("layering", "source", "format")]
    results += [(f"{c[0]}: {c[4]} in {c[1]}", try_bad(*c)) for c in CASES]
    results += [(f"tidy: {c[3]}", try_tidy(*c)) for c in TIDY_CASES]
    results += [(f"exports: {c[4]}", try_exports(compiler, nm, c)) for c in EXPORT_CASES]
    failed = 0
    for name, wrong in results:
        print(f"{name}: {wrong or 'ok'}")
        failed += wrong is not None
    print(f"[  PASSED  ] {len(results) - failed} test(s).")
    if failed:
        print(f"[  FAILED  ] selftest: {failed} test(s)")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
