# SPDX-License-Identifier: Apache-2.0
#
# cmake -DSCRIPTS_DIR=<dir> -DNAMES=<a,b,...> -DOUTPUT_DIR=<dir> -P embed_lua.cmake
#
# Turns <dir>/a.lua, <dir>/b.lua, ... into lua_scripts.c and lua_scripts.h: each script's text and
# its SHA-1. Comments, indentation and blank lines do not reach the server, so the .lua files may
# be commented as freely as C. A script is read line by line, which is why it may use neither long
# brackets ([[ ]]) outside comments nor a string that goes on in the next line: both are refused.
#
# A line "--include part" stands for <dir>/parts/part.lua, which is not a script by itself.
#
# Texts are handled with string() only, never as lists: Lua is full of semicolons and brackets.
cmake_minimum_required(VERSION 3.22)

# One line of Lua without indentation and comment.
function(strip_line line variable)
    string(REGEX REPLACE "^[ \t]+" "" line "${line}")
    # What stands before a comment: other characters, a lone minus, whole strings.
    set(double_quoted "\"([^\"\\\\]|\\\\.)*\"")
    set(single_quoted "'([^'\\\\]|\\\\.)*'")
    if("${line}" MATCHES "^(([^\"'-]|-[^\"'-]|${double_quoted}|${single_quoted})*)--")
        set(line "${CMAKE_MATCH_1}")
    endif()
    string(REGEX REPLACE "[ \t\r]+$" "" line "${line}")
    set(${variable} "${line}" PARENT_SCOPE)
endfunction()

# The text that is sent: the lines of the file that do something.
function(read_script file variable)
    file(READ "${file}" rest)
    set(text "")
    set(number 0)
    set(in_comment FALSE)
    while(NOT "${rest}" STREQUAL "")
        string(FIND "${rest}" "\n" end)
        if(end EQUAL -1)
            set(line "${rest}")
            set(rest "")
        else()
            string(SUBSTRING "${rest}" 0 ${end} line)
            math(EXPR next "${end} + 1")
            string(SUBSTRING "${rest}" ${next} -1 rest)
        endif()
        math(EXPR number "${number} + 1")

        if(in_comment OR "${line}" MATCHES "^[ \t]*--\\[\\[")
            if("${line}" MATCHES "\\]\\](.*)$")
                set(in_comment FALSE)
                if(NOT "${CMAKE_MATCH_1}" MATCHES "^[ \t\r]*$")
                    message(FATAL_ERROR "${file}:${number}: code behind ]]; put it on its own line")
                endif()
            else()
                set(in_comment TRUE)
            endif()
            continue()
        endif()

        if("${line}" MATCHES "^ *--include ([a-z][a-z0-9_]*)$")
            read_script("${SCRIPTS_DIR}/parts/${CMAKE_MATCH_1}.lua" part)
            string(APPEND text "${part}")
            continue()
        endif()
        strip_line("${line}" line)
        if("${line}" MATCHES "\\[=*\\[")
            message(FATAL_ERROR "${file}:${number}: long bracket; use a quoted string or a space")
        endif()
        if("${line}" MATCHES "\\\\$")
            message(FATAL_ERROR "${file}:${number}: a string may not go on in the next line")
        endif()
        if(NOT "${line}" STREQUAL "")
            string(APPEND text "${line}\n")
        endif()
    endwhile()
    if(in_comment)
        message(FATAL_ERROR "${file}:${number}: the comment is not closed")
    endif()
    set(${variable} "${text}" PARENT_SCOPE)
endfunction()

# The text as C string literals, one for each line.
function(quote_text text variable)
    string(REPLACE "\\" "\\\\" text "${text}")
    string(REPLACE "\"" "\\\"" text "${text}")
    string(REPLACE "?" "\\?" text "${text}") # no trigraphs
    string(REPLACE "\t" "\\t" text "${text}")
    string(REGEX REPLACE "\n$" "" text "${text}")
    string(REPLACE "\n" "\\n\"\n    \"" text "${text}")
    set(${variable} "    \"${text}\\n\"" PARENT_SCOPE)
endfunction()

set(declarations "")
set(definitions "")
string(REPLACE "," ";" names "${NAMES}")
foreach(name IN LISTS names)
    if(NOT "${name}" MATCHES "^[a-z][a-z0-9_]*$")
        message(FATAL_ERROR "${SCRIPTS_DIR}/${name}.lua: the name must be a C identifier")
    endif()
    read_script("${SCRIPTS_DIR}/${name}.lua" text)
    if("${text}" STREQUAL "")
        message(FATAL_ERROR "${SCRIPTS_DIR}/${name}.lua: nothing but comments")
    endif()
    string(SHA1 sha1 "${text}")
    quote_text("${text}" literal)
    string(APPEND declarations "extern const struct pawl__script pawl__script_${name};\n")
    string(APPEND definitions
        "\nstatic const char ${name}_text[] =\n${literal};\n"
        "const struct pawl__script pawl__script_${name} = {\n"
        "    \"${name}\", ${name}_text, sizeof(${name}_text) - 1,\n    \"${sha1}\"};\n")
endforeach()

set(notice "/* Made from engine/redis/scripts by cmake/embed_lua.cmake; do not edit. */\n")
file(WRITE "${OUTPUT_DIR}/lua_scripts.h" "${notice}"
"#ifndef PAWL_ENGINE_REDIS_LUA_SCRIPTS_H
#define PAWL_ENGINE_REDIS_LUA_SCRIPTS_H

#include <stddef.h>

struct pawl__script {
    const char *name; /* the file's name without .lua */
    const char *text; /* without comments and indentation */
    size_t text_size;
    char sha1[41]; /* of the text, in hex, as EVALSHA takes it */
};

${declarations}
#endif
")
file(WRITE "${OUTPUT_DIR}/lua_scripts.c" "${notice}"
"#include \"engine/redis/lua_scripts.h\"

#pragma GCC diagnostic ignored \"-Woverlength-strings\"
${definitions}")
