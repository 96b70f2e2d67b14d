# The layers of src/: what each is compiled from, and which headers it sees.
#
# Headers are included as "LAYER/header.h". The include path of a layer holds one directory for each layer that
# it names, with only that layer's name in it (a link in the build tree), so an include of any other layer does
# not compile. scripts/check-layers draws the graph and finds includes that evade this ("../").

# onespace_headers(LAYER [DIRECTORY]): makes the target headers-LAYER. A target that links it may include "LAYER/…"
# from src/LAYER, or from DIRECTORY.
function(onespace_headers layer)
  set(directory ${PROJECT_SOURCE_DIR}/src/${layer})
  if(ARGC GREATER 1)
    set(directory ${ARGV1})
  endif()
  string(REPLACE "/" "-" name ${layer})
  set(link ${PROJECT_BINARY_DIR}/layers/${name}/${layer})
  get_filename_component(parent ${link} DIRECTORY)
  file(MAKE_DIRECTORY ${parent})
  file(CREATE_LINK ${directory} ${link} SYMBOLIC)
  add_library(headers-${name} INTERFACE)
  target_include_directories(headers-${name} INTERFACE ${PROJECT_BINARY_DIR}/layers/${name})
endfunction()

# onespace_layer(LAYER [DIRECTORY dir] [SOURCES …] [FREESTANDING …] [EXPORTS layer…] [USES layer…]): the object
# library layer-LAYER. FREESTANDING sources are compiled to run on a task's thread, without libc. EXPORTS are the
# layers that the headers of this one include: a layer that sees this one sees them. USES are those that only its
# sources include; they are not passed on.
function(onespace_layer layer)
  cmake_parse_arguments(LAYER "" "DIRECTORY" "SOURCES;FREESTANDING;EXPORTS;USES" ${ARGN})
  if(NOT LAYER_DIRECTORY)
    set(LAYER_DIRECTORY ${PROJECT_SOURCE_DIR}/src/${layer})
  endif()
  string(REPLACE "/" "-" name ${layer})
  onespace_headers(${layer} ${LAYER_DIRECTORY})
  foreach(exported ${LAYER_EXPORTS})
    string(REPLACE "/" "-" exported ${exported})
    target_link_libraries(headers-${name} INTERFACE headers-${exported})
  endforeach()
  if(NOT LAYER_SOURCES AND NOT LAYER_FREESTANDING)
    return()
  endif()
  list(TRANSFORM LAYER_SOURCES PREPEND ${LAYER_DIRECTORY}/)
  list(TRANSFORM LAYER_FREESTANDING PREPEND ${LAYER_DIRECTORY}/)
  set_source_files_properties(${LAYER_FREESTANDING} PROPERTIES COMPILE_OPTIONS "${FREESTANDING_OPTIONS}")
  set_property(GLOBAL APPEND PROPERTY ONESPACE_FREESTANDING ${LAYER_FREESTANDING}) # tests/check-freestanding
  add_library(layer-${name} OBJECT ${LAYER_SOURCES} ${LAYER_FREESTANDING})
  list(TRANSFORM LAYER_USES REPLACE "/" "-")
  list(TRANSFORM LAYER_USES PREPEND headers-)
  target_link_libraries(layer-${name} PUBLIC headers-${name} PRIVATE project-options ${LAYER_USES})
endfunction()
