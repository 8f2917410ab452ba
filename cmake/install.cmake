# SPDX-License-Identifier: Apache-2.0
#
# What `cmake --install` puts where: the header, both libraries, the pkg-config file, and the CMake
# package with the targets pawl::pawl and pawl::pawl_static.
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/pawl")

install(FILES include/pawl.h DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(TARGETS pawl pawl_static EXPORT pawlTargets
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(EXPORT pawlTargets NAMESPACE pawl:: DESTINATION "${package_dir}")

configure_package_config_file(cmake/pawlConfig.cmake.in pawlConfig.cmake
    INSTALL_DESTINATION "${package_dir}" NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(pawlConfigVersion.cmake COMPATIBILITY ${PAWL_COMPATIBILITY})
install(FILES
    "${PROJECT_BINARY_DIR}/pawlConfig.cmake" "${PROJECT_BINARY_DIR}/pawlConfigVersion.cmake"
    DESTINATION "${package_dir}")

# The pkg-config file finds the prefix from where it lies, so that an installed tree may be moved
# and `cmake --install --prefix` may name another place. Absolute directories are taken as they are.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
    set(PAWL_PC_PREFIX "${CMAKE_INSTALL_PREFIX}")
else()
    file(RELATIVE_PATH up "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
    string(REGEX REPLACE "/$" "" up "${up}")
    set(PAWL_PC_PREFIX "\${pcfiledir}/${up}")
endif()
foreach(kind LIBDIR INCLUDEDIR)
    if(IS_ABSOLUTE "${CMAKE_INSTALL_${kind}}")
        set(PAWL_PC_${kind} "${CMAKE_INSTALL_${kind}}")
    else()
        set(PAWL_PC_${kind} "\${prefix}/${CMAKE_INSTALL_${kind}}")
    endif()
endforeach()
configure_file(cmake/pawl.pc.in pawl.pc @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/pawl.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
