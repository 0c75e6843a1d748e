# A library that stands in for one of NVIDIA's: same name, same version node, and an entry point for every
# name that stubs/entry_points.txt lists for it.

# Everything that fragscope_virtual_library made, for the library that preloads it all.
define_property(GLOBAL PROPERTY FRAGSCOPE_VIRTUAL_LIBRARIES
  BRIEF_DOCS "Libraries that stand in for NVIDIA's" FULL_DOCS "In the order of their declaration")

# Writes the stubs of one section of entry_points.txt. `fail` is what a missing function returns; QUIET
# makes all of them succeed; BLAS makes routines of those that look like one.
function(fragscope_write_stubs section fail kind output)
  set(list "${CMAKE_CURRENT_SOURCE_DIR}/stubs/entry_points.txt")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${list}")
  file(STRINGS "${list}" lines REGEX "^[^#]")
  set(inside FALSE)
  set(text "// Generated from stubs/entry_points.txt, section ${section}.\n")
  string(APPEND text "#include \"virtual_cuda/stubs/stubs.hpp\"\n")
  foreach(line IN LISTS lines)
    if(line MATCHES "^=(.*)$")
      string(COMPARE EQUAL "${CMAKE_MATCH_1}" "${section}" inside)
    elseif(inside)
      if(kind STREQUAL "QUIET")
        string(APPEND text "FRAGSCOPE_QUIET_STUB(${line})\n")
      elseif(line MATCHES "(Get(Last)?(Error|Status)(String|Name)|ncclGetLastError)$")
        string(APPEND text "FRAGSCOPE_TEXT_STUB(${line})\n")
      elseif(kind STREQUAL "BLAS" AND line MATCHES "(_v2|Ex|Batched)(_64)?$"
             AND NOT line MATCHES "^cublas(Create|Destroy|Set|Get)")
        string(APPEND text "FRAGSCOPE_BLAS_STUB(${line})\n")
      else()
        string(APPEND text "FRAGSCOPE_STUB(${line}, ${fail})\n")
      endif()
    endif()
  endforeach()
  file(CONFIGURE OUTPUT "${output}" CONTENT "${text}" @ONLY)
endfunction()

# fragscope_virtual_library(<soname> SECTION <name in entry_points.txt> FAIL <number>
#   EXPORTS <pattern>... [NODE <version node>] [KIND QUIET|BLAS] [CUDART <major>] [SOURCES <file>...])
function(fragscope_virtual_library soname)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "SECTION;FAIL;NODE;KIND;CUDART" "EXPORTS;SOURCES")
  string(REGEX REPLACE "[^A-Za-z0-9]" "_" target "fragscope_${soname}")
  if(NOT DEFINED arg_KIND)
    set(arg_KIND FAILING)
  endif()
  set(stubs "${CMAKE_CURRENT_BINARY_DIR}/stubs/${soname}.cpp")
  fragscope_write_stubs(${arg_SECTION} ${arg_FAIL} ${arg_KIND} "${stubs}")

  # Programs bind to NAME@NODE where NVIDIA's library has a version node, else to the bare name.
  set(map "${CMAKE_CURRENT_BINARY_DIR}/stubs/${soname}.map")
  list(JOIN arg_EXPORTS " " exports)
  file(CONFIGURE OUTPUT "${map}" CONTENT "${arg_NODE} { global: ${exports} local: *; };\n" @ONLY)

  add_library(${target} SHARED ${arg_SOURCES} "${stubs}")
  set_target_properties(${target} PROPERTIES
    PREFIX "" OUTPUT_NAME "${soname}" SUFFIX "" NO_SONAME ON LINK_DEPENDS "${map}"
    LIBRARY_OUTPUT_DIRECTORY "${FRAGSCOPE_VIRTUAL_CUDA_DIR}" BUILD_RPATH "$ORIGIN")
  target_link_options(${target} PRIVATE "LINKER:-soname,${soname}" "LINKER:--version-script,${map}")
  target_link_libraries(${target} PRIVATE
    fragscope::virtual_cuda fragscope_flags ${CMAKE_DL_LIBS})
  if(DEFINED arg_CUDART)
    target_compile_definitions(${target} PRIVATE FRAGSCOPE_CUDART_MAJOR=${arg_CUDART})
  endif()
  set_property(GLOBAL APPEND PROPERTY FRAGSCOPE_VIRTUAL_LIBRARIES ${target})
endfunction()
