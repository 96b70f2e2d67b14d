# What is installed, and how others find it: pkg-config and a CMake package.
include(CMakePackageConfigHelpers)

# What tasks load lies beside the agent: in the library directory, or, since none of it has a version in its name, in
# that directory's own `onespace` for a distribution that keeps such files out of there (src/spawn/agent_path.c).
option(ONESPACE_PRIVATE_LIBRARIES "Install what only tasks load into a directory of its own" OFF)
set(ONESPACE_TASK_LIBDIR ${CMAKE_INSTALL_LIBDIR})
if(ONESPACE_PRIVATE_LIBRARIES)
  set(ONESPACE_TASK_LIBDIR ${CMAKE_INSTALL_LIBDIR}/onespace)
endif()

install(TARGETS onespace onespace_sync EXPORT onespace LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
# Executable: `libpip.so --version` is what packages of Process-in-Process call.
install(TARGETS pip EXPORT onespace LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} PERMISSIONS OWNER_READ OWNER_WRITE
  OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
install(TARGETS xpmem EXPORT onespace LIBRARY DESTINATION ${ONESPACE_TASK_LIBDIR})
install(TARGETS onespace-agent LIBRARY DESTINATION ${ONESPACE_TASK_LIBDIR})
install(TARGETS onespace-python RUNTIME DESTINATION ${ONESPACE_TASK_LIBDIR}/onespace)
foreach(mpi mpich openmpi abi)
  if(TARGET onespace-mpi-${mpi})
    install(TARGETS onespace-mpi-${mpi} EXPORT onespace LIBRARY DESTINATION ${ONESPACE_TASK_LIBDIR})
    if(ONESPACE_PRIVATE_LIBRARIES)
      set_target_properties(onespace-mpi-${mpi} PROPERTIES INSTALL_RPATH $ORIGIN/..)
    endif()
  endif()
endforeach()
install(TARGETS onespace-smsc LIBRARY DESTINATION ${ONESPACE_TASK_LIBDIR}/onespace/openmpi)
if(ONESPACE_PRIVATE_LIBRARIES)
  set_target_properties(onespace-smsc PROPERTIES INSTALL_RPATH $ORIGIN/../../..)
endif()
if(TARGET onespace-spank)
  install(TARGETS onespace-spank onespace-spank-start LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/onespace/slurm
    RUNTIME DESTINATION ${CMAKE_INSTALL_LIBDIR}/onespace/slurm)
endif()
install(TARGETS onespace-command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES include/onespace.h include/xpmem.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES include/pip/pip.h include/pip/pip_machdep.h include/pip/pip_clone.h include/pip/pip_util.h
    include/pip/xpmem.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/pip)
install(FILES include/onespace/sync.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/onespace)
install(FILES include/onespace/window.h include/onespace/insitu.h include/onespace/parallel.h include/onespace/array.h
    include/onespace/call.h include/onespace/call.hpp
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/onespace)
install(DIRECTORY include/onespace/sync DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/onespace
  FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h")
install(DIRECTORY man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 FILES_MATCHING PATTERN "*.1")
install(DIRECTORY man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man3 FILES_MATCHING PATTERN "*.3")
install(DIRECTORY man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man5 FILES_MATCHING PATTERN "*.5")
# What the documentation links to, in the same places.
install(FILES LICENSE README.md CHANGELOG.md CITATION.cff CONTRIBUTING.md SECURITY.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DOCDIR})

# How a .pc file comes to the prefix from its own directory, so that it is right wherever the files are: the prefix may
# be named as late as by cmake --install.
set(PC_DIRECTORY ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH PC_PREFIX /${PC_DIRECTORY} /)
string(REGEX REPLACE "/$" "" PC_PREFIX "\${pcfiledir}/${PC_PREFIX}")
set(PC_LIBDIR "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
set(PC_XPMEM_LIBDIR "\${prefix}/${ONESPACE_TASK_LIBDIR}")
set(PC_INCLUDEDIR ${CMAKE_INSTALL_INCLUDEDIR})
if(NOT IS_ABSOLUTE ${PC_INCLUDEDIR})
  set(PC_INCLUDEDIR "\${prefix}/${PC_INCLUDEDIR}")
endif()
configure_file(cmake/onespace.pc.in onespace.pc @ONLY)
configure_file(cmake/cray-xpmem.pc.in cray-xpmem.pc @ONLY)
configure_file(cmake/pip.pc.in pip.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/onespace.pc ${PROJECT_BINARY_DIR}/cray-xpmem.pc ${PROJECT_BINARY_DIR}/pip.pc
  DESTINATION ${PC_DIRECTORY})

install(EXPORT onespace NAMESPACE onespace:: FILE onespace-targets.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/onespace)
file(WRITE ${PROJECT_BINARY_DIR}/onespace-config.cmake
  "include(\"\${CMAKE_CURRENT_LIST_DIR}/onespace-targets.cmake\")\n")
write_basic_package_version_file(${PROJECT_BINARY_DIR}/onespace-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/onespace-config.cmake
  ${PROJECT_BINARY_DIR}/onespace-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/onespace)
# Where the shells look.
set(COMPLETIONS ${PROJECT_BINARY_DIR}/completions/onespace)
install(FILES ${COMPLETIONS}.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME onespace)
install(FILES ${COMPLETIONS}.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions RENAME _onespace)
install(FILES ${COMPLETIONS}.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
include(cmake/install_bench.cmake)
if(NOT SKBUILD) # a wheel needs none, and its sources have none
  include(cmake/install_modules.cmake)
endif()
# The last: what was installed, for `make uninstall` and the next version.
install(SCRIPT cmake/install_manifest.cmake)
