# cmake -DPREFIX=P -P cmake/uninstall.cmake: removes what `cmake --install` has put under P, by the list that it left
# there, and the directories that it has made, if they are empty then.
include(${CMAKE_CURRENT_LIST_DIR}/installed.cmake)
installed_path("${PREFIX}" share/onespace/installed list)
if(NOT EXISTS "${list}")
  message(FATAL_ERROR "${list} does not exist: onespace is not installed under ${PREFIX}; name its PREFIX")
endif()
installed_read("${PREFIX}" files directories)
installed_remove("${PREFIX}" "${files}" "${directories}")
list(LENGTH files count)
message(STATUS "onespace: removed ${count} files from ${PREFIX}")
