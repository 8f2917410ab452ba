# SPDX-License-Identifier: Apache-2.0
#
# Reads the version from include/pawl.h. Sets PAWL_VERSION, and PAWL_SOVERSION: while the major
# number is 0 every minor release may break the ABI, so both numbers are in the library's soname.
set(PAWL_HEADER "${CMAKE_CURRENT_SOURCE_DIR}/include/pawl.h")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PAWL_HEADER}")
file(STRINGS "${PAWL_HEADER}" version_lines REGEX "^#define PAWL_VERSION_(MAJOR|MINOR|PATCH) ")

foreach(part MAJOR MINOR PATCH)
    if(NOT "${version_lines}" MATCHES "#define PAWL_VERSION_${part} +([0-9]+)")
        message(FATAL_ERROR "include/pawl.h: no line '#define PAWL_VERSION_${part} <number>'")
    endif()
    set(PAWL_VERSION_${part} "${CMAKE_MATCH_1}")
endforeach()

set(PAWL_VERSION "${PAWL_VERSION_MAJOR}.${PAWL_VERSION_MINOR}.${PAWL_VERSION_PATCH}")
if(PAWL_VERSION_MAJOR EQUAL 0)
    set(PAWL_SOVERSION "0.${PAWL_VERSION_MINOR}")
    set(PAWL_COMPATIBILITY SameMinorVersion)
else()
    set(PAWL_SOVERSION "${PAWL_VERSION_MAJOR}")
    set(PAWL_COMPATIBILITY SameMajorVersion)
endif()
