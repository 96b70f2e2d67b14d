# The benchmark that `onespace bench` runs: sources, since it compiles them with the user's own MPI. All users may read them,
# whatever the modes of the sources are.
install(DIRECTORY bench/p2p bench/lib DESTINATION ${CMAKE_INSTALL_DATADIR}/onespace/bench
  PATTERN "__pycache__" EXCLUDE
  REGEX "/(run|onespace_report\\.py)$" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
    WORLD_READ WORLD_EXECUTE)
install(FILES bench/schema.json DESTINATION ${CMAKE_INSTALL_DATADIR}/onespace/bench)
