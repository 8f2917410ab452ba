# SPDX-License-Identifier: Apache-2.0
#
# How every target of this project is compiled: the language, the warnings, the hardening, and
# whatever instrumentation the preset asks for.
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
endif()

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(THREADS_PREFER_PTHREAD_FLAG ON)

# The static checks that every C file here must pass, documentation snippets included.
set(PAWL_WARNINGS
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wstrict-prototypes
    -Wmissing-prototypes -Wswitch-enum -Wpointer-arith -Wcast-qual -Wwrite-strings -Wformat=2
    -Wundef -Wvla)
if(PAWL_WERROR)
    list(APPEND PAWL_WARNINGS -Werror)
endif()
add_compile_options(${PAWL_WARNINGS})

include(CheckPIESupported)
check_pie_supported(LANGUAGES C)
add_compile_options(-fstack-protector-strong)
add_link_options(-Wl,-z,relro -Wl,-z,now -Wl,--as-needed)

set(optimized "$<CONFIG:Release,RelWithDebInfo,MinSizeRel>")
if(PAWL_SANITIZE STREQUAL "" AND NOT PAWL_COVERAGE AND NOT PAWL_FUZZ)
    set(PAWL_INSTRUMENTED OFF)
    # -U first: some distributions' compilers define another level on their own.
    add_compile_options("$<${optimized}:-U_FORTIFY_SOURCE>" "$<${optimized}:-D_FORTIFY_SOURCE=2>")
else()
    set(PAWL_INSTRUMENTED ON)
endif()

if(PAWL_FUZZ)
    if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
        message(FATAL_ERROR "PAWL_FUZZ needs clang: cmake --preset fuzz, or CC=clang")
    endif()
    add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(NOT PAWL_SANITIZE STREQUAL "")
    set(sanitize
        "-fsanitize=${PAWL_SANITIZE}" -fno-sanitize-recover=all -fno-omit-frame-pointer)
    add_compile_options(${sanitize})
    add_link_options(${sanitize})
endif()
if(PAWL_COVERAGE)
    add_compile_options(--coverage)
    add_link_options(--coverage)
endif()
