# SPDX-License-Identifier: Apache-2.0
#
# Finds what the build needs from outside. The library itself needs libc and its threads alone;
# the rest is for tests, benchmarks and the flash sale; a missing piece is named with its package.
find_package(Threads REQUIRED)

function(pawl_find_module variable module package)
    if(PkgConfig_FOUND)
        pkg_check_modules(${variable} QUIET IMPORTED_TARGET ${module})
    endif()
    if(NOT ${variable}_FOUND)
        message(FATAL_ERROR
            "${module} not found: apt-get install pkg-config ${package}, "
            "or build the library alone with -DPAWL_TESTS=OFF -DPAWL_BENCH=OFF "
            "-DPAWL_APPS=OFF")
    endif()
endfunction()

if(PAWL_TESTS OR PAWL_BENCH OR PAWL_APPS)
    find_package(PkgConfig QUIET)
    pawl_find_module(HIREDIS hiredis libhiredis-dev)
endif()
if(PAWL_APPS)
    pawl_find_module(MICROHTTPD libmicrohttpd libmicrohttpd-dev)
    pawl_find_module(JANSSON jansson libjansson-dev)
endif()
if(PAWL_TESTS)
    pawl_find_module(CMOCKA cmocka libcmocka-dev)
    find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)
endif()
