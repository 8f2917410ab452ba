#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who may include whom: layering.py ROOT

Includes go down only: pawl.c > compound > core > engine/* > net > base. Engines know core through
core/engine.h alone, no engine includes another, and only core/engines.c names the engines.
Programs (cli, apps, examples, bench) use pawl.h and what lies beside them. Every layer may
include pawl.h, which is the vocabulary of all. The command has layers of its own: main.c and
commands.h > the subcommands' folders, none of which includes another > common > line > text. So has
the flash sale: main.c and commands.h > up > load > audit > serve > strategies > shop > common, with
what CMake embeds below all.
"""

import os
import re
import sys

import tree

LAYERS = {"base": 0, "net": 1, "engine": 2, "core": 3, "compound": 4, "top": 5}
SEAM = "src/core/engine.h"
REGISTRY = "src/core/engines.c"
PUBLIC = "include/pawl.h"
GENERATED = {"engine/redis/lua_scripts.h": "src/engine/redis/lua_scripts.h",
             "embedded.h": "apps/flashsale/embedded.h"}
PROGRAM_DIRS = ("cli", "apps", "examples", "bench")
CLI_LAYERS = {"text": 0, "line": 1, "common": 2}  # the other folders are subcommands, above these
CLI_TABLE = "cli/commands.h"
SALE = "apps/flashsale/"
SALE_LAYERS = {"embedded.h": 0, "common": 1, "shop": 2, "strategies": 3, "serve": 4, "audit": 5,
               "load": 6, "up": 7, "commands.h": 8, "main.c": 9}
SALE_TABLE = SALE + "commands.h"
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.M)


def layer_of(path):
    """The layer of a file in src/; None for a directory that the design does not know."""
    parts = path.split("/")
    if len(parts) == 2:
        return "top"
    return parts[1] if parts[1] in LAYERS else None


def engine_of(path):
    """The engine that a file belongs to, or None."""
    parts = path.split("/")
    return parts[2] if parts[:2] == ["src", "engine"] and len(parts) > 3 else None


def resolve(root, path, name, quoted):
    """The file of this project that an include means; None if it is none of ours."""
    if name in GENERATED:
        return GENERATED[name]
    candidates = []
    if quoted:
        program = SALE if path.startswith(SALE) else path.split("/")[0] + "/"
        candidates = [os.path.dirname(path) + "/" + name, program + name]
    candidates += ["src/" + name, "include/" + name, "tests/" + name]
    for candidate in map(os.path.normpath, candidates):
        if os.path.isfile(os.path.join(root, candidate)):
            return candidate
    return None


def judge_library(path, target):
    """What is wrong with a file in src/ including target, in a sentence, or None."""
    if target == PUBLIC:
        return None
    if not target.startswith("src/"):
        return f"includes {target}: the library includes pawl.h and files of src/ only"
    own, other = layer_of(path), layer_of(target)
    own_engine, other_engine = engine_of(path), engine_of(target)
    if other is None:
        return f"includes {target}: no layer of that name; see LAYERS in tests/style/layering.py"
    if own == "engine" and target == SEAM:
        return None
    if other_engine and other_engine != own_engine and path != REGISTRY:
        if own_engine:
            return (
                f"includes {target}: no engine includes another; move what both need to net or base"
            )
        return f"includes {target}: only core/engines.c names engines; go through core/engine.h"
    if LAYERS[own] < LAYERS[other]:
        if own == "engine":
            return f"includes {target}: engines know core only through core/engine.h"
        return f"includes {target}: includes go down only, and {own} is below {other}"
    return None


def judge_command(path, target):
    """The same for a file of the command and another of its files."""
    own, other = (name.split("/")[1] for name in (path, target))
    if target == CLI_TABLE or own == other or path.count("/") == 1:
        return None
    own_layer = CLI_LAYERS.get(own, len(CLI_LAYERS))
    if own_layer > CLI_LAYERS.get(other, len(CLI_LAYERS)):
        return None
    if own_layer == len(CLI_LAYERS):
        return f"includes {target}: no subcommand includes another; move what both need to common"
    return f"includes {target}: includes go down only, and {own} is not above {other}"


def judge_sale(path, target):
    """The same for a file of the flash sale and another of its files."""
    own, other = (name[len(SALE):].split("/")[0] for name in (path, target))
    for part, name in ((own, path), (other, target)):
        if part not in SALE_LAYERS:
            return f"{name}: no layer of that name; see SALE_LAYERS in tests/style/layering.py"
    if target == SALE_TABLE or SALE_LAYERS[own] >= SALE_LAYERS[other]:
        return None
    return f"includes {target}: includes go down only, and {own} is below {other}"


def judge_program(path, target):
    """The same for a program."""
    if target == PUBLIC:
        return None
    if path.startswith(SALE) and target.startswith(SALE):
        return judge_sale(path, target)
    if target.split("/")[0] == path.split("/")[0]:
        return judge_command(path, target) if path.startswith("cli/") else None
    return f"includes {target}: programs use pawl.h only; add what is missing to the public header"


def named_engines(root):
    path = os.path.join(root, "src/engine")
    names = sorted(os.listdir(path)) if os.path.isdir(path) else []
    return [name for name in names if os.path.isdir(os.path.join(path, name))]


def check_includes(root, path, judge, offences):
    text = tree.without_comments(tree.read(root, path), strings=True)
    for match in INCLUDE.finditer(text):
        quoted, name = match.group(1) == '"', match.group(2)
        line = tree.line_of(text, match.start())
        target = resolve(root, path, name, quoted)
        if ".." in name.split("/"):
            sentence = f'includes "{name}": write the path from src/, without ..'
        elif target is None:
            sentence = f'includes "{name}": no such file; use <> for system headers'
            sentence = sentence if quoted else None
        else:
            sentence = judge(path, target)
        if sentence:
            offences.append((path, line, sentence))


def check_names(root, path, engines, offences):
    """An engine's table is named nowhere but at home and in the registry."""
    code = tree.without_comments(tree.read(root, path))
    for match in re.finditer(r"\bpawl__(?:engine_(\w+)|(\w+)_engine)\b", code):
        engine = match.group(1) or match.group(2)
        if engine in engines and engine != engine_of(path) and path != REGISTRY:
            sentence = f"names {match.group()}: only core/engines.c names engines"
            offences.append((path, tree.line_of(code, match.start()), sentence))


def main():
    root = tree.argument(1, "the root of the tree")
    offences = []
    library = tree.c_files(root, ("src",))
    programs = tree.c_files(root, PROGRAM_DIRS)
    engines = named_engines(root)
    for path in library:
        if layer_of(path) is None:
            sentence = "lies in no layer; see LAYERS in tests/style/layering.py"
            offences.append((path, 1, sentence))
            continue
        check_includes(root, path, judge_library, offences)
        check_names(root, path, engines, offences)
    for path in programs:
        check_includes(root, path, judge_program, offences)
    if not library:
        offences.append(("src", 1, "no C files found; is this the root of the tree?"))
    summary = f"{len(library)} files of the library and {len(programs)} of programs in order"
    return tree.report("layering", offences, summary)


if __name__ == "__main__":
    sys.exit(main())
