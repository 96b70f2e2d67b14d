# Part of `cmake --install`, the first: made_directories are those that this installation makes among shared_directories, and
# those that an earlier one below this prefix has made. The last part writes them down.
include(${CMAKE_CURRENT_LIST_DIR}/installed.cmake)
if(CMAKE_INSTALL_PREFIX MATCHES "[;\n]")
  message(FATAL_ERROR "onespace: the prefix, ${CMAKE_INSTALL_PREFIX}, has a semicolon or a line break, which divide the list of "
    "what is installed: choose another")
endif()
installed_read("${CMAKE_INSTALL_PREFIX}" old_files made_directories)
list(TRANSFORM shared_directories APPEND "/file")
installed_parents("${shared_directories}" shared_directories)
foreach(directory ${shared_directories})
  if(NOT IS_ABSOLUTE "${directory}" AND NOT EXISTS "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${directory}")
    list(APPEND made_directories "${directory}")
  endif()
endforeach()
