# SPDX-License-Identifier: Apache-2.0
#
# cmake -DROOT=<dir> -DFILES=<a,b/c,...> -DOUTPUT_DIR=<dir> -P embed_files.cmake
#
# Turns files below <dir> into embedded.c and embedded.h: a `const struct embedded` for each, named
# after its path (page/page.js: embedded_page_page_js), with its bytes, a NUL behind them, and its
# SHA-1, and a table of all of them. Any bytes will do; they are written as numbers.
cmake_minimum_required(VERSION 3.22)

set(declarations "")
set(definitions "")
set(table "")
string(REPLACE "," ";" files "${FILES}")
foreach(path IN LISTS files)
    string(MAKE_C_IDENTIFIER "${path}" name)
    file(READ "${ROOT}/${path}" bytes HEX)
    file(SHA1 "${ROOT}/${path}" sha1)
    string(LENGTH "${bytes}" size)
    math(EXPR size "${size} / 2")
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
    string(APPEND declarations "extern const struct embedded embedded_${name};\n")
    string(APPEND definitions
        "\nstatic const unsigned char ${name}_bytes[] = {${bytes}0};\n"
        "const struct embedded embedded_${name} = {\n"
        "    \"${path}\", (const char *)${name}_bytes, ${size}, \"${sha1}\"};\n")
    string(APPEND table "    &embedded_${name},\n")
endforeach()

set(notice "/* Made by cmake/embed_files.cmake; do not edit. */\n")
file(WRITE "${OUTPUT_DIR}/embedded.h" "${notice}"
"#ifndef FLASHSALE_EMBEDDED_H
#define FLASHSALE_EMBEDDED_H

#include <stddef.h>

struct embedded {
    const char *path; /* as it is in the tree, from apps/flashsale */
    const char *text; /* with a NUL behind it */
    size_t size;      /* without that */
    char sha1[41];    /* as EVALSHA takes it */
};

/* All of them; ends with NULL. */
extern const struct embedded *const embedded_files[];

${declarations}
#endif
")
file(WRITE "${OUTPUT_DIR}/embedded.c" "${notice}"
"#include \"embedded.h\"
${definitions}
const struct embedded *const embedded_files[] = {
${table}    NULL};
")
