# Environment modules, for Lmod (.lua) and Environment Modules (Tcl). They find the prefix from their own place, so that
# `module use PREFIX/share/modulefiles` is right wherever the installation is moved to.
foreach(module onespace onespace-openmpi)
  foreach(language lua tcl)
    configure_file(packaging/modules/${module}.${language}.in modules/${module}.${language} @ONLY)
    set(name ${PROJECT_VERSION})
    if(language STREQUAL lua)
      string(APPEND name .lua)
    endif()
    install(FILES ${PROJECT_BINARY_DIR}/modules/${module}.${language}
      DESTINATION ${CMAKE_INSTALL_DATADIR}/modulefiles/${module} RENAME ${name})
  endforeach()
endforeach()
