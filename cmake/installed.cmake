# The list of what `cmake --install` has put below a prefix, share/onespace/installed: a file per line, and the directories that
# it made beside others' with "/" at the end. Names are relative to the prefix, or absolute for what is elsewhere. A
# prefix may have any character but ";" and line breaks: no name is a pattern here, and lists have no prefix in them, because CMake
# does not divide a list within brackets.
cmake_policy(VERSION 3.22) # a script has none by default

# installed_path(PREFIX NAME PATH): the variable gets where a name of the list is, below DESTDIR if that is set.
function(installed_path prefix name path_variable)
  if(NOT IS_ABSOLUTE "${name}")
    set(name "${prefix}/${name}")
  endif()
  set(${path_variable} "$ENV{DESTDIR}${name}" PARENT_SCOPE)
endfunction()

# installed_read(PREFIX FILES DIRECTORIES): the variables get the lists; empty where there is no list.
function(installed_read prefix files_variable directories_variable)
  set(text "")
  installed_path("${prefix}" share/onespace/installed list)
  if(EXISTS "${list}")
    file(READ "${list}" text)
  endif()
  string(REGEX REPLACE "\n+" ";" names "${text}")
  list(REMOVE_ITEM names "")
  set(directories ${names})
  list(FILTER names EXCLUDE REGEX "/$")
  list(FILTER directories INCLUDE REGEX "/$")
  list(TRANSFORM directories REPLACE "/$" "")
  set(${files_variable} "${names}" PARENT_SCOPE)
  set(${directories_variable} "${directories}" PARENT_SCOPE)
endfunction()

# installed_parents(NAMES PARENTS): the variable gets the directories below the prefix that the named ones are in.
function(installed_parents names parents_variable)
  set(parents)
  foreach(name ${names})
    get_filename_component(name "${name}" DIRECTORY)
    while(NOT name MATCHES "^/?$")
      list(APPEND parents "${name}")
      get_filename_component(name "${name}" DIRECTORY)
    endwhile()
  endforeach()
  list(REMOVE_DUPLICATES parents)
  set(${parents_variable} "${parents}" PARENT_SCOPE)
endfunction()

# installed_remove(PREFIX FILES DIRECTORIES): removes the files, then those of their directories that are empty: the named ones,
# and those that are onespace's own by their name. Others, such as /usr/local/bin, were there before and stay.
function(installed_remove prefix files directories)
  foreach(name ${files})
    installed_path("${prefix}" "${name}" path)
    file(REMOVE "${path}")
  endforeach()
  installed_parents("${files}" parents)
  set(removed)
  foreach(name ${parents})
    if(name IN_LIST directories OR name MATCHES "onespace")
      list(APPEND removed "${name}")
    endif()
  endforeach()
  # A directory after all that is in it.
  list(SORT removed ORDER DESCENDING)
  foreach(name ${removed})
    installed_path("${prefix}" "${name}" path)
    execute_process(COMMAND rmdir -- "${path}" ERROR_QUIET RESULT_VARIABLE ignored) # fails if something is left in it
  endforeach()
endfunction()
