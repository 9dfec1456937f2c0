# SPDX-License-Identifier: Apache-2.0
# Compilers, linker and flags: everything that holds for each file of the tree.

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  message(FATAL_ERROR
    "g++ ${CMAKE_CXX_COMPILER_VERSION} miscompiles coroutines (a plain `if (co_await x)` can lose the task, and "
    "argument temporaries are destroyed twice). Use clang 19, which `scripts/install-deps` installs: "
    "`cmake --workflow --preset release`, or -DCMAKE_C_COMPILER=clang-19 -DCMAKE_CXX_COMPILER=clang++-19 "
    "in a new build directory. g++ 13 or newer is let through, but nobody tests it.")
elseif(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 19)
  message(FATAL_ERROR
    "clang ${CMAKE_CXX_COMPILER_VERSION} does not offer std::expected with libstdc++ 12. Use clang 19, which "
    "`scripts/install-deps` installs: `cmake --workflow --preset release`.")
endif()

set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 17)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
set(THREADS_PREFER_PTHREAD_FLAG ON)

# Coroutine-heavy code is unusably slow and deep of stack at -O0, so Debug optimizes a little.
foreach(language C CXX)
  set(CMAKE_${language}_FLAGS_DEBUG "-O1 -g")
  set(CMAKE_${language}_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")
  set(CMAKE_${language}_FLAGS_RELWITHDEBINFO "-O2 -g")
endforeach()

if(FOREBAY_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(FOREBAY_CCACHE_PROGRAM ccache)
  mark_as_advanced(FOREBAY_CCACHE_PROGRAM)
  if(FOREBAY_CCACHE_PROGRAM)
    set(CMAKE_C_COMPILER_LAUNCHER "${FOREBAY_CCACHE_PROGRAM}")
    # With precompiled headers it must be told that times and macros in them do not matter; they have none.
    set(CMAKE_CXX_COMPILER_LAUNCHER
        "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros;${FOREBAY_CCACHE_PROGRAM}")
  endif()
endif()

# -pthread everywhere, since gRPC's targets ask for it and precompiled headers have to agree.
add_compile_options(-pthread -fno-omit-frame-pointer -fdiagnostics-color=auto)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
  # SSE4.2 and its CRC instruction: every x86 server since 2010. Wider code is chosen at run time.
  add_compile_options(-march=x86-64-v2)
endif()
if(CMAKE_BUILD_TYPE STREQUAL "Debug" OR FOREBAY_SANITIZE)
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
endif()

if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  include(CheckLinkerFlag)
  check_linker_flag(CXX "-fuse-ld=lld" FOREBAY_HAS_LLD)
  if(FOREBAY_HAS_LLD)
    add_link_options(-fuse-ld=lld)
  endif()
endif()

if(FOREBAY_SANITIZE STREQUAL "address")
  set(forebay_sanitizer_flags -fsanitize=address,undefined -fno-sanitize-recover=all)
elseif(FOREBAY_SANITIZE STREQUAL "thread")
  set(forebay_sanitizer_flags -fsanitize=thread)
  set(forebay_tsan_options "suppressions=${PROJECT_SOURCE_DIR}/tests/tsan.supp")
  # Without a symbolizer the suppressions that name functions would match nothing.
  find_program(FOREBAY_SYMBOLIZER NAMES llvm-symbolizer-19 llvm-symbolizer)
  mark_as_advanced(FOREBAY_SYMBOLIZER)
  if(FOREBAY_SYMBOLIZER)
    string(APPEND forebay_tsan_options ":external_symbolizer_path=${FOREBAY_SYMBOLIZER}")
  endif()
elseif(FOREBAY_SANITIZE)
  message(FATAL_ERROR "FOREBAY_SANITIZE is `${FOREBAY_SANITIZE}`: it may be empty, `address` or `thread`.")
endif()
if(FOREBAY_SANITIZE)
  add_compile_options(${forebay_sanitizer_flags})
  add_link_options(${forebay_sanitizer_flags})
endif()

# Our own targets only: forebay_library and forebay_test link to this, generated code does not.
add_library(forebay_warnings INTERFACE)
target_compile_options(forebay_warnings INTERFACE
  -Wall -Wextra -Wnon-virtual-dtor -Woverloaded-virtual -Wimplicit-fallthrough -Wunused-result -Werror)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(forebay_warnings INTERFACE
    -Wthread-safety
    -Wno-missing-designated-field-initializers)  # options structs are filled by name, the rest is their default
else()
  target_compile_options(forebay_warnings INTERFACE -Wno-missing-field-initializers)
endif()
