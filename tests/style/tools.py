# SPDX-License-Identifier: Apache-2.0
"""Finding the LLVM tools. Their versions disagree with each other, so one decides: 14."""

import re
import shutil
import subprocess

VERSION = "14"
SKIPPED = 77  # the exit status of a test whose tool is missing


def find(name):
    """The path of clang-format or clang-tidy in the right version, or None and a word about it."""
    for candidate in (f"{name}-{VERSION}", name):
        path = shutil.which(candidate)
        if path:
            text = subprocess.run([path, "--version"], capture_output=True, text=True).stdout
            if re.search(rf"version {VERSION}\.", text):
                return path
    print(f"skipped: no {name} {VERSION}; apt-get install {name}-{VERSION}")
    return None
