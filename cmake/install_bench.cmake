# The benchmark that `onespace bench` runs: sources, since it compiles them with the user's own MPI.
install(DIRECTORY bench/p2p bench/lib DESTINATION ${CMAKE_INSTALL_DATADIR}/onespace/bench
  USE_SOURCE_PERMISSIONS PATTERN "__pycache__" EXCLUDE)
install(FILES bench/schema.json DESTINATION ${CMAKE_INSTALL_DATADIR}/onespace/bench)
