# The layers of src/: what each is compiled from, and which headers it sees.
#
# Headers are included as "LAYER/header.h". The include path of a layer holds one directory for each layer
# below it, with that layer's name alone in it (a link in the build tree), so an upward include does not
# compile. scripts/check-layers draws the graph and finds includes that go round this ("../").

# onespace_headers(LAYER [DIRECTORY]): makes the target headers-LAYER. Who links it may include "LAYER/…"
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

# onespace_layer(LAYER [DIRECTORY dir] [SOURCES …] [FREESTANDING …] [USES layer…]): the object library
# layer-LAYER. FREESTANDING sources are compiled to run on a task's thread, without libc. USES is passed
# on to those who use the layer.
function(onespace_layer layer)
  cmake_parse_arguments(LAYER "" "DIRECTORY" "SOURCES;FREESTANDING;USES" ${ARGN})
  if(NOT LAYER_DIRECTORY)
    set(LAYER_DIRECTORY ${PROJECT_SOURCE_DIR}/src/${layer})
  endif()
  string(REPLACE "/" "-" name ${layer})
  onespace_headers(${layer} ${LAYER_DIRECTORY})
  foreach(used ${LAYER_USES})
    string(REPLACE "/" "-" used ${used})
    target_link_libraries(headers-${name} INTERFACE headers-${used})
  endforeach()
  if(NOT LAYER_SOURCES AND NOT LAYER_FREESTANDING)
    return()
  endif()
  list(TRANSFORM LAYER_SOURCES PREPEND ${LAYER_DIRECTORY}/)
  list(TRANSFORM LAYER_FREESTANDING PREPEND ${LAYER_DIRECTORY}/)
  set_source_files_properties(${LAYER_FREESTANDING} PROPERTIES COMPILE_OPTIONS "${FREESTANDING_OPTIONS}")
  set_property(GLOBAL APPEND PROPERTY ONESPACE_FREESTANDING ${LAYER_FREESTANDING}) # tests/check-freestanding
  add_library(layer-${name} OBJECT ${LAYER_SOURCES} ${LAYER_FREESTANDING})
  target_link_libraries(layer-${name} PUBLIC headers-${name} PRIVATE project-options)
endfunction()
