# The language, the warnings and the sanitizers of everything we compile. Each target of ours links
# fragscope_flags privately; nothing of it reaches the targets of a project that includes us.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)

find_program(FRAGSCOPE_CCACHE ccache DOC "Compiler cache; used where it is found.")
mark_as_advanced(FRAGSCOPE_CCACHE)
if(FRAGSCOPE_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${FRAGSCOPE_CCACHE}")
endif()

# FRAGSCOPE_HAVE_CUDA: whether this build compiles .cu files.
set(FRAGSCOPE_HAVE_CUDA OFF)
if(FRAGSCOPE_ENABLE_CUDA)
  include(CheckLanguage)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80 90 100)
  endif()
  set(ENV{CUDAARCHS} "${CMAKE_CUDA_ARCHITECTURES}") # So that one too old for them does not count as working.
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(FRAGSCOPE_HAVE_CUDA ON)
  elseif(FRAGSCOPE_ENABLE_CUDA STREQUAL "AUTO")
    message(STATUS "No nvcc that compiles for ${CMAKE_CUDA_ARCHITECTURES}: building without CUDA")
  else()
    message(FATAL_ERROR "No nvcc was found that compiles for ${CMAKE_CUDA_ARCHITECTURES}. Set the environment "
                        "variable CUDACXX to one, or build without CUDA: -DFRAGSCOPE_ENABLE_CUDA=OFF")
  endif()
endif()
if(FRAGSCOPE_HAVE_CUDA)
  enable_language(CUDA)
  # CMake 3.25 knows no C++20 for CUDA; nvcc 13 does. Drop these lines under a newer CMake, once checked.
  if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  set(CMAKE_CUDA_EXTENSIONS OFF)
  find_package(CUDAToolkit REQUIRED)
endif()

add_library(fragscope_flags INTERFACE)
target_compile_options(fragscope_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wconversion;-Wsign-conversion;-Wshadow>
  # Clang's version reports every defaulted operator<=>.
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wzero-as-null-pointer-constant>
  # The rest warns about code that nvcc itself generates.
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wshadow>)
# g++ 12 sees overlapping copies in `"text" + std::string` that are none (its bug 105651, fixed in 13).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(fragscope_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
# A check that fails names its file as in the repository, not as on the machine that built it.
target_compile_options(fragscope_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=>)
if(FRAGSCOPE_WERROR)
  target_compile_options(fragscope_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Werror>
    $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings;-Xcompiler=-Werror>)
endif()
if(FRAGSCOPE_ENABLE_DCHECKS)
  # libstdc++'s own bounds checks change no layout, so system libraries built without them still fit.
  target_compile_definitions(fragscope_flags INTERFACE FRAGSCOPE_ENABLE_DCHECKS _GLIBCXX_ASSERTIONS)
endif()

set(fragscope_sanitizers ${FRAGSCOPE_SANITIZE})
if(FRAGSCOPE_BUILD_FUZZERS)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "FRAGSCOPE_BUILD_FUZZERS needs clang, this is ${CMAKE_CXX_COMPILER_ID}; "
                        "the preset 'fuzz' picks it")
  endif()
  list(APPEND fragscope_sanitizers fuzzer-no-link)
endif()
if(fragscope_sanitizers)
  if(FRAGSCOPE_HAVE_CUDA)
    message(FATAL_ERROR "Sanitizers do not go with CUDA: add -DFRAGSCOPE_ENABLE_CUDA=OFF")
  endif()
  list(JOIN fragscope_sanitizers "," joined)
  target_compile_options(fragscope_flags INTERFACE
    -fsanitize=${joined} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(fragscope_flags INTERFACE -fsanitize=${joined})
  if("address" IN_LIST fragscope_sanitizers AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # What the sanitizer knows of source lines is a million addresses, which every program would relocate
    # as it starts: half of the time that most tests take.
    target_link_options(fragscope_flags INTERFACE
      $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-no-pie>)
  endif()
endif()

# The way of a request leads through several libraries: a release build of what is linked with this looks
# across their borders. Their objects hold ordinary code as well, for programs that are linked without;
# clang learnt that only with version 17, so it does not take part.
add_library(fragscope_linked_as_one INTERFACE)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(fragscope_linked_as_one INTERFACE
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-flto=auto;-ffat-lto-objects>)
endif()
