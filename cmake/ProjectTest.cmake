# How tests, benchmarks and fuzz targets are declared. Each runs from the repository root, so that
# paths such as fixtures/demo_oom.pickle hold, and carries exactly one label.
include(GoogleTest)

set(FRAGSCOPE_TEST_LABELS unit golden field sim fuzz bench torch torch26 style gpu)

# The label of tests on this version of PyTorch. The newest belongs to every run; 2.6 has a preset.
function(fragscope_torch_label variable version)
  if(version STREQUAL "2.6")
    set(${variable} torch26 PARENT_SCOPE)
  else()
    set(${variable} torch PARENT_SCOPE)
  endif()
endfunction()

function(fragscope_check_label name label)
  if(NOT label IN_LIST FRAGSCOPE_TEST_LABELS)
    message(FATAL_ERROR "${name}: LABEL is '${label}', not one of: ${FRAGSCOPE_TEST_LABELS}")
  endif()
endfunction()

# fragscope_test(<name> LABEL <label> SOURCES <file>... [LIBRARIES <target>...] [TIMEOUT <seconds>])
# A GoogleTest program; each of its tests becomes one ctest named <name>.<Suite>.<Test>.
function(fragscope_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "LABEL;TIMEOUT" "SOURCES;LIBRARIES")
  fragscope_check_label("${name}" "${arg_LABEL}")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE
    ${arg_LIBRARIES} GTest::gmock GTest::gtest_main fragscope_flags)
  # One label and a prefix: given two labels, gtest_discover_tests drops the second in silence, and
  # two programs with a test of the same name would share their properties.
  gtest_discover_tests(${name}
    TEST_PREFIX "${name}."
    DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT 60
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
    PROPERTIES LABELS ${arg_LABEL} TIMEOUT ${arg_TIMEOUT})
endfunction()

# fragscope_bench(<name> SOURCES <file>... [LIBRARIES <target>...])
# A Google Benchmark program. ctest runs it for a moment, which also runs the check of its answers:
# a benchmark that calls SkipWithError still exits with 0, hence the expression.
function(fragscope_bench name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBRARIES")
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} benchmark::benchmark_main fragscope_flags)
  add_test(NAME bench.${name}
    COMMAND ${name} --benchmark_min_time=0.001
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
  set_tests_properties(bench.${name} PROPERTIES
    LABELS bench TIMEOUT 300 FAIL_REGULAR_EXPRESSION "ERROR OCCURRED")
endfunction()

# fragscope_fuzz(<name> SOURCES <file>... CORPUS <folder>... [LIBRARIES <target>...])
# SOURCES define LLVMFuzzerTestOneInput. With FRAGSCOPE_BUILD_FUZZERS libFuzzer drives it, else a
# plain main (tests/fuzz/corpus_main.cpp) that runs every file named or found in a named folder.
# Either way ctest runs the corpus once, so no target can rot.
function(fragscope_fuzz name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBRARIES;CORPUS")
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} fragscope_flags)
  if(FRAGSCOPE_BUILD_FUZZERS)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    set(once -runs=0)
  else()
    target_sources(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests/fuzz/corpus_main.cpp")
    set(once "")
  endif()
  add_test(NAME fuzz.${name}
    COMMAND ${name} ${once} ${arg_CORPUS}
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
  set_tests_properties(fuzz.${name} PROPERTIES LABELS fuzz TIMEOUT 300)
endfunction()
