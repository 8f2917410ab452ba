# SPDX-License-Identifier: Apache-2.0
#
# pawl_embed_lua(<directory of *.lua> <output directory> <variable>): generate lua_scripts.c and
# lua_scripts.h in the output directory with one `const struct pawl__script pawl__script_<name>` for
# each <name>.lua, and put the C file into the variable. The directory may be empty or missing.
# Adding, changing or removing a script, or a part that scripts include, makes them anew.
function(pawl_embed_lua scripts_dir output_dir variable)
    file(GLOB scripts CONFIGURE_DEPENDS "${scripts_dir}/*.lua")
    file(GLOB parts CONFIGURE_DEPENDS "${scripts_dir}/parts/*.lua")
    set(names "")
    foreach(script IN LISTS scripts)
        get_filename_component(name "${script}" NAME_WE)
        list(APPEND names "${name}")
    endforeach()
    list(SORT names)
    # The names stand in the command so that a removed script changes it.
    string(JOIN "," names ${names})

    set(outputs "${output_dir}/lua_scripts.c" "${output_dir}/lua_scripts.h")
    set(generator "${PROJECT_SOURCE_DIR}/cmake/embed_lua.cmake")
    add_custom_command(
        OUTPUT ${outputs}
        COMMAND "${CMAKE_COMMAND}" "-DSCRIPTS_DIR=${scripts_dir}" "-DNAMES=${names}"
                "-DOUTPUT_DIR=${output_dir}" -P "${generator}"
        DEPENDS ${scripts} ${parts} "${generator}"
        COMMENT "Embedding the Lua scripts"
        VERBATIM)
    add_custom_target(pawl_lua DEPENDS ${outputs})
    set(${variable} "${output_dir}/lua_scripts.c" PARENT_SCOPE)
endfunction()
