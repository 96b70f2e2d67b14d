# cmake -DPREFIX=P -P cmake/uninstall.cmake: removes what `cmake --install` has put under P, by the list that it left
# there, and the directories that it has made, if they are empty then.
include(${CMAKE_CURRENT_LIST_DIR}/installed.cmake)
if(NOT EXISTS "$ENV{DESTDIR}${PREFIX}/share/onespace/installed")
  message(FATAL_ERROR "$ENV{DESTDIR}${PREFIX}/share/onespace/installed does not exist: onespace is not installed under "
    "${PREFIX}; name its PREFIX")
endif()
installed_read("${PREFIX}" files directories)
installed_remove("${PREFIX}" "${files}" "${directories}")
list(LENGTH files count)
message(STATUS "onespace: removed ${count} files from ${PREFIX}")
