# SPDX-License-Identifier: Apache-2.0
#
# The library built by a profile, a recording of how often each branch is taken. That takes two
# builds of the same sources by the same compiler: one with PAWL_PROFILE=record, whose shared
# library writes the recording to <build>/profile when a program that has used it ends, and one with
# PAWL_PROFILE=<that directory>. scripts/release does both, with bench/training in between.
#
# Between two exchanges the server and the kernel use the processor's caches, so what a lock costs
# is mostly code that has to be fetched again. By the profile, and over all files at once (-flto),
# the compiler lays what is used side by side and the rest apart: an acquire and a release by TCP
# touch a third fewer cache lines of code. bench/README.md has the figures, for each option.
set(PAWL_PROFILE "" CACHE STRING "record, or the directory of a recording to build by (gcc only)")

if(NOT PAWL_PROFILE STREQUAL "" AND
    (NOT CMAKE_C_COMPILER_ID STREQUAL "GNU" OR CMAKE_C_COMPILER_VERSION VERSION_LESS 12))
    message(FATAL_ERROR
        "PAWL_PROFILE needs gcc 12 or later, "
        "and this is ${CMAKE_C_COMPILER_ID} ${CMAKE_C_COMPILER_VERSION}: "
        "leave it out, or choose another compiler with CC and a new build directory")
endif()

# For both builds, as a recording fits only what was compiled alike: the same sources in the same
# place, options and generator, or gcc complains. A recording has a file for each object, named by
# the object's path in the build directory, which is another one the second time.
# -O3 inlines more, which pays where the profile says that it is used. What makes code longer for
# the sake of loops is off: there are none that matter.
set(PAWL_PROFILE_OPTIONS -O3 -fno-tracer -fno-unroll-loops -fno-peel-loops -fno-tree-vectorize
    -falign-functions=1 -falign-jumps=1 -falign-loops=1
    "-fprofile-prefix-path=${PROJECT_BINARY_DIR}")

function(pawl_record_profile objects shared)
    set(options ${PAWL_PROFILE_OPTIONS} "-fprofile-generate=${PROJECT_BINARY_DIR}/profile"
        -fprofile-update=prefer-atomic)
    target_compile_options(${objects} PRIVATE ${options})
    target_link_options(${shared} PRIVATE ${options})
endfunction()

function(pawl_use_profile objects shared static)
    get_filename_component(recording "${PAWL_PROFILE}" ABSOLUTE BASE_DIR "${PROJECT_SOURCE_DIR}")
    file(GLOB files "${recording}/*.gcda")
    if(NOT files)
        message(FATAL_ERROR
            "PAWL_PROFILE: no recording in ${recording}; scripts/release makes one")
    endif()
    set(options ${PAWL_PROFILE_OPTIONS} "-fprofile-use=${recording}")
    # Fat: with code beside what -flto works on.
    target_compile_options(${objects} PRIVATE ${options} -flto -ffat-lto-objects)
    target_link_options(${shared} PRIVATE ${options} -flto=auto)
    # Only this very compiler could read the latter, and another one would stumble over it.
    add_custom_command(TARGET ${static} POST_BUILD VERBATIM COMMAND ${CMAKE_OBJCOPY}
        -R .gnu.lto_* -R .gnu.debuglto_* $<TARGET_FILE:${static}>)
endfunction()

# Build these as PAWL_PROFILE says: the objects, and the libraries that are made of them.
function(pawl_apply_profile objects shared static)
    if(PAWL_PROFILE STREQUAL "record")
        pawl_record_profile(${objects} ${shared})
    elseif(NOT PAWL_PROFILE STREQUAL "")
        pawl_use_profile(${objects} ${shared} ${static})
    endif()
endfunction()
