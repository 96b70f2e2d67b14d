# Memory that is backed by a file, without MPI: what the MPI layer is built of.
set(REGION_TESTS hints_test.cpp file_test.cpp region_test.cpp bulk_test.cpp changes_test.cpp)
list(TRANSFORM REGION_TESTS PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
add_executable(region_test ${REGION_TESTS})
target_include_directories(region_test PRIVATE ${CMAKE_CURRENT_LIST_DIR})
target_link_libraries(region_test PRIVATE project-options layer-storage-file layer-storage-region GTest::gtest_main)
cheap_to_compile(region_test)
gtest_discover_tests(region_test PROPERTIES TIMEOUT ${ONESPACE_TEST_TIMEOUT} LABELS storage
  DISCOVERY_TIMEOUT 30)
