# Tests in which system calls of src/storage fail.
set(FAULTS_CALLS open openat fallocate ftruncate fsync fdatasync msync pwrite pread ioctl mmap mkdir unlinkat
  syscall)
list(TRANSFORM FAULTS_CALLS PREPEND -Wl,--wrap=)
add_executable(storage_faults_test faults.cpp region_faults_test.cpp versions_faults_test.cpp)
target_include_directories(storage_faults_test PRIVATE ${CMAKE_CURRENT_LIST_DIR})
target_link_options(storage_faults_test PRIVATE ${FAULTS_CALLS})
target_link_libraries(storage_faults_test PRIVATE project-options layer-storage-file layer-storage-region
  layer-storage-versions GTest::gtest_main)
cheap_to_compile(storage_faults_test)
gtest_discover_tests(storage_faults_test PROPERTIES TIMEOUT ${ONESPACE_TEST_TIMEOUT} LABELS storage
  DISCOVERY_TIMEOUT 30)
