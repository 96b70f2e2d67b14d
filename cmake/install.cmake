# What is installed, and how others find it: pkg-config and a CMake package.
include(CMakePackageConfigHelpers)

install(TARGETS onespace onespace_sync xpmem EXPORT onespace LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS onespace-agent LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS onespace-python RUNTIME DESTINATION ${CMAKE_INSTALL_LIBDIR}/onespace)
foreach(mpi mpich openmpi)
  if(TARGET onespace-mpi-${mpi})
    install(TARGETS onespace-mpi-${mpi} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
endforeach()
install(TARGETS onespace-command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES include/onespace.h include/xpmem.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS pip LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES include/pip/pip.h include/pip/pip_machdep.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/pip)
install(FILES include/onespace/sync.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/onespace)
install(FILES include/onespace/window.h include/onespace/insitu.h include/onespace/parallel.h include/onespace/array.h
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/onespace)
install(DIRECTORY include/onespace/sync DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/onespace
  FILES_MATCHING PATTERN "*.hpp")
install(DIRECTORY man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 FILES_MATCHING PATTERN "*.1")
install(DIRECTORY man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man3 FILES_MATCHING PATTERN "*.3")
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

configure_file(cmake/onespace.pc.in onespace.pc @ONLY)
configure_file(cmake/cray-xpmem.pc.in cray-xpmem.pc @ONLY)
configure_file(cmake/pip.pc.in pip.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/onespace.pc ${PROJECT_BINARY_DIR}/cray-xpmem.pc ${PROJECT_BINARY_DIR}/pip.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(EXPORT onespace NAMESPACE onespace:: FILE onespace-targets.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/onespace)
file(WRITE ${PROJECT_BINARY_DIR}/onespace-config.cmake
  "include(\"\${CMAKE_CURRENT_LIST_DIR}/onespace-targets.cmake\")\n")
write_basic_package_version_file(${PROJECT_BINARY_DIR}/onespace-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/onespace-config.cmake
  ${PROJECT_BINARY_DIR}/onespace-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/onespace)
include(cmake/install_bench.cmake)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
