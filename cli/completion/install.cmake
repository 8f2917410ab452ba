# SPDX-License-Identifier: Apache-2.0
#
# The manual page and the completions go where man, bash, zsh and fish look for them.
set(share "${CMAKE_INSTALL_DATAROOTDIR}")
install(FILES "${PROJECT_SOURCE_DIR}/docs/man/pawl.1" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")
install(FILES "${CMAKE_CURRENT_LIST_DIR}/pawl.bash"
    DESTINATION "${share}/bash-completion/completions" RENAME pawl)
install(FILES "${CMAKE_CURRENT_LIST_DIR}/_pawl" DESTINATION "${share}/zsh/site-functions")
install(FILES "${CMAKE_CURRENT_LIST_DIR}/pawl.fish"
    DESTINATION "${share}/fish/vendor_completions.d")
