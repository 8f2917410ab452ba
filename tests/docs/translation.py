# SPDX-License-Identifier: Apache-2.0
"""README.zh-CN.md is in step with README.md: the same code, headings, links, and figures in tables.

Whether the sentences say the same no program can tell; but whoever changes one page without the
other mostly changes one of these.
"""

import argparse
import os
import re
import sys


def fences(text):
    """The blocks between fences, and the text without them."""
    pattern = re.compile(r"^```.*?^```$", re.M | re.S)
    return pattern.findall(text), pattern.sub("", text)


def figures(prose):
    """The numbers in each row of the tables; backquoted text has none."""
    rows = [re.sub(r"`[^`]*`", "", row) for row in re.findall(r"^\|.*\|$", prose, re.M)]
    return [re.findall(r"\d[\d.,]*\d|\d", row) for row in rows]


def what_must_agree(text):
    blocks, prose = fences(text)
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", prose) if not link.startswith("README")]
    return {
        "code blocks": blocks,
        "headings": [len(mark) for mark in re.findall(r"^(#+) ", prose, re.M)],
        "links": links,
        "figures in tables": figures(prose),
    }


def differences(one, other):
    """What disagrees, as sentences."""
    found = []
    for what, here in what_must_agree(one).items():
        there = what_must_agree(other)[what]
        pairs = list(zip(here, there))
        for a, b in pairs:
            if a != b:
                found.append(f"{what}: {a!r} here, {b!r} in the translation")
        if len(here) != len(there):
            found.append(f"{what}: {len(here)} here, {len(there)} in the translation")
    return found


def selftest():
    """A page that was changed alone is noticed."""
    page = "# a\n\n[x](y.md)\n\n| one | 1.5 |\n\n```sh\nrun\n```\n"
    changed = [page.replace("1.5", "1.6"), page.replace("run", "walk"),
               page.replace("y.md", "z.md"), page + "\n## b\n"]
    return differences(page, page) == [] and all(differences(page, other) for other in changed)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--root", required=True)
    options = parser.parse_args()
    texts = []
    for name in ("README.md", "README.zh-CN.md"):
        with open(os.path.join(options.root, name), encoding="utf-8") as file:
            texts.append(file.read())
    found = differences(*texts)
    if not selftest():
        found.append("the comparison does not see differences")
    for line in found:
        print(line)
    print(f"[  {'FAILED' if found else 'PASSED'}  ] 1 test(s).")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
