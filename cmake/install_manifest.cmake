# Part of `cmake --install`, the last: removes the files of an earlier version below the prefix that this one lacks, and
# writes which files and directories there are now.
set(list "${CMAKE_INSTALL_PREFIX}/share/onespace/installed")
string(REPLACE ";" "\n" files "\n${CMAKE_INSTALL_MANIFEST_FILES};${list}")
string(REPLACE "\n${CMAKE_INSTALL_PREFIX}/" "\n" files "${files}")
string(REGEX REPLACE "\n+" ";" files "${files}")
list(REMOVE_ITEM files "")
list(REMOVE_ITEM old_files ${files})
# What is elsewhere may belong to another prefix, too.
list(FILTER old_files EXCLUDE REGEX "^/|^\\.\\./")
installed_remove("${CMAKE_INSTALL_PREFIX}" "${old_files}" "")
list(REMOVE_DUPLICATES made_directories)
list(TRANSFORM made_directories APPEND "/")
list(JOIN files "\n" files)
list(JOIN made_directories "\n" made_directories)
file(WRITE "$ENV{DESTDIR}${list}" "${files}\n${made_directories}\n")
