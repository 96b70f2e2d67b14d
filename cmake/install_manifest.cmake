# Part of `cmake --install`, the last: writes which files were installed, below the prefix.
set(list ${CMAKE_INSTALL_PREFIX}/share/onespace/installed)
set(files)
foreach(file ${CMAKE_INSTALL_MANIFEST_FILES} ${list})
  file(RELATIVE_PATH file ${CMAKE_INSTALL_PREFIX} ${file})
  string(APPEND files "${file}\n")
endforeach()
file(WRITE $ENV{DESTDIR}${list} "${files}")
