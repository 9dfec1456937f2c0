# SPDX-License-Identifier: Apache-2.0
# The three functions a folder's CMakeLists.txt is made of: forebay_library, forebay_test, forebay_proto.

include(GoogleTest)

# What nearly every file includes is parsed once: a third to a half of what it takes to compile one. Not with sanitizers or
# clang-tidy: there each file has to include what it needs.
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND NOT FOREBAY_SANITIZE AND NOT CMAKE_CXX_CLANG_TIDY)
  set(forebay_precompile_default ON)
else()
  set(forebay_precompile_default OFF)
endif()
option(FOREBAY_PRECOMPILE "Precompile the headers that nearly every file includes" ${forebay_precompile_default})
if(FOREBAY_PRECOMPILE)
  set(forebay_common_headers
      <algorithm> <array> <atomic> <chrono> <coroutine> <cstdint> <cstring> <deque> <expected> <functional> <list> <map> <memory>
      <optional> <span> <string> <string_view> <unordered_map> <utility> <vector> <fmt/format.h>)
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/precompiled.cc" CONTENT "int main() {}\n" @ONLY)
  # Of libraries, which are position-independent, and of the tests, which are executables: a header fits one kind.
  add_library(forebay_precompiled OBJECT "${PROJECT_BINARY_DIR}/precompiled.cc")
  target_link_libraries(forebay_precompiled PRIVATE fmt::fmt Threads::Threads forebay_warnings)
  target_precompile_headers(forebay_precompiled PRIVATE ${forebay_common_headers})
  add_executable(forebay_precompiled_tests "${PROJECT_BINARY_DIR}/precompiled.cc")
  target_link_libraries(forebay_precompiled_tests PRIVATE fmt::fmt GTest::gmock GTest::gtest Threads::Threads forebay_warnings)
  target_precompile_headers(forebay_precompiled_tests PRIVATE ${forebay_common_headers} <gtest/gtest.h>)
  set_target_properties(forebay_precompiled forebay_precompiled_tests PROPERTIES EXCLUDE_FROM_ALL TRUE)
endif()

function(_forebay_precompile target kind)
  if(FOREBAY_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM ${kind})
  endif()
endfunction()

# forebay_library(<folder> [SOURCES a.cc ...] [HEADERS a.h ...] [DEPS folder ...]
#                 [THIRD_PARTY target ...] [PUBLIC_THIRD_PARTY target ...] [PRECOMPILE <header> ...])
#
# Makes the static library forebay_<folder> (alias forebay::<folder>); without SOURCES an interface library. Include roots
# are src/ and include/. DEPS are names of folders (or of other forebay_library / forebay_proto targets) and public;
# THIRD_PARTY is private to the folder's own files; PUBLIC_THIRD_PARTY is for what its headers include as well.
# Each of HEADERS is compiled alone when FOREBAY_HEADER_CHECK is on. PRECOMPILE: what most files of this folder include besides.
function(forebay_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;HEADERS;DEPS;THIRD_PARTY;PUBLIC_THIRD_PARTY;PRECOMPILE")
  _forebay_refuse_unknown(forebay_library ${name})
  set(target forebay_${name})
  list(TRANSFORM arg_DEPS PREPEND "forebay::")
  if(arg_SOURCES)
    add_library(${target} STATIC ${arg_SOURCES} ${arg_HEADERS})
    target_include_directories(${target} PUBLIC "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/include")
    target_link_libraries(${target}
      PUBLIC ${arg_DEPS} ${arg_PUBLIC_THIRD_PARTY} Threads::Threads
      PRIVATE ${arg_THIRD_PARTY} $<BUILD_INTERFACE:forebay_warnings>)
    if(FOREBAY_PRECOMPILE AND arg_PRECOMPILE)
      target_precompile_headers(${target} PRIVATE ${forebay_common_headers} ${arg_PRECOMPILE})
    else()
      _forebay_precompile(${target} forebay_precompiled)
    endif()
  else()
    add_library(${target} INTERFACE)
    target_include_directories(${target} INTERFACE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/include")
    target_link_libraries(${target} INTERFACE ${arg_DEPS} ${arg_PUBLIC_THIRD_PARTY} ${arg_THIRD_PARTY} Threads::Threads)
  endif()
  add_library(forebay::${name} ALIAS ${target})
  if(FOREBAY_HEADER_CHECK AND arg_HEADERS)
    _forebay_header_check(${name} "${arg_HEADERS}" "${arg_THIRD_PARTY}")
  endif()
endfunction()

# forebay_test(<name> SOURCES a_test.cc ... [DEPS folder ...] [LIBS target ...] [TIMEOUT seconds] [SERIAL])
#
# A GoogleTest program (main included) whose cases ctest lists and runs one by one, named <folder>.<Suite>.<Case>
# and labelled <folder>. GTEST_SKIP shows as skipped. SERIAL: its cases run alone on the machine.
function(forebay_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "SERIAL" "TIMEOUT" "SOURCES;DEPS;LIBS")
  _forebay_refuse_unknown(forebay_test ${name})
  add_executable(${name} ${arg_SOURCES})
  if(NOT FOREBAY_TESTS)
    # The target stays, so that a folder may go on to set its properties; nothing builds it.
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL TRUE)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  list(TRANSFORM arg_DEPS PREPEND "forebay::")
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/include")
  target_link_libraries(${name} PRIVATE
    ${arg_DEPS} ${arg_LIBS} GTest::gmock GTest::gtest_main Threads::Threads forebay_warnings)
  _forebay_precompile(${name} forebay_precompiled_tests)
  # GoogleTest's macros trip more checks than they are worth; the tidy preset looks at the code that ships.
  set_target_properties(${name} PROPERTIES CXX_CLANG_TIDY "")
  if(NOT FOREBAY_TESTS)
    return()
  endif()

  get_filename_component(folder "${CMAKE_CURRENT_SOURCE_DIR}" NAME)
  set(properties LABELS "${folder}" TIMEOUT ${arg_TIMEOUT})
  if(arg_SERIAL)
    list(APPEND properties RUN_SERIAL TRUE)
  endif()
  if(FOREBAY_SANITIZE STREQUAL "thread")
    list(APPEND properties ENVIRONMENT "TSAN_OPTIONS=${forebay_tsan_options}")
  endif()
  gtest_discover_tests(${name}
    DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT 60
    TEST_PREFIX "${folder}."
    PROPERTIES ${properties})
endfunction()

# forebay_proto(<name> ROOT dir PROTOS path/below/root.proto ... [GRPC] [DEPS name ...])
#
# Compiles .proto files into the static library forebay_<name>, so that `#include "path/below/root.pb.h"` works.
# With GRPC it generates the service stubs (root.grpc.pb.h) *instead of* the messages: name the messages' library in DEPS.
function(forebay_proto name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "GRPC" "ROOT" "PROTOS;DEPS")
  _forebay_refuse_unknown(forebay_proto ${name})
  get_filename_component(root "${arg_ROOT}" ABSOLUTE)
  set(out "${CMAKE_CURRENT_BINARY_DIR}/${name}")
  file(MAKE_DIRECTORY "${out}")
  set(suffix ".pb")
  set(command protobuf::protoc "--cpp_out=${out}")
  if(arg_GRPC)
    set(suffix ".grpc.pb")
    find_program(FOREBAY_GRPC_PLUGIN grpc_cpp_plugin REQUIRED)
    set(command protobuf::protoc "--plugin=protoc-gen-grpc=${FOREBAY_GRPC_PLUGIN}" "--grpc_out=${out}")
  endif()
  set(generated "")
  foreach(proto IN LISTS arg_PROTOS)
    string(REGEX REPLACE "\\.proto$" "" stem "${proto}")
    set(files "${out}/${stem}${suffix}.cc" "${out}/${stem}${suffix}.h")
    add_custom_command(OUTPUT ${files}
      COMMAND ${command} "-I${root}" "${root}/${proto}"
      DEPENDS "${root}/${proto}" protobuf::protoc
      COMMENT "Generating ${stem}${suffix}.{h,cc}"
      VERBATIM)
    list(APPEND generated ${files})
  endforeach()
  list(TRANSFORM arg_DEPS PREPEND "forebay::")
  set(target forebay_${name})
  add_library(${target} STATIC ${generated})
  add_library(forebay::${name} ALIAS ${target})
  target_include_directories(${target} SYSTEM PUBLIC "${out}")
  target_compile_options(${target} PRIVATE -w)
  target_link_libraries(${target} PUBLIC ${arg_DEPS} protobuf::libprotobuf)
  if(arg_GRPC)
    target_link_libraries(${target} PUBLIC gRPC::grpc++)
  endif()
  set_target_properties(${target} PROPERTIES CXX_CLANG_TIDY "")
endfunction()

# One generated file per header that includes just it; built by `all` and by the target header_check.
function(_forebay_header_check name headers third_party)
  set(sources "")
  foreach(header IN LISTS headers)
    cmake_path(ABSOLUTE_PATH header NORMALIZE OUTPUT_VARIABLE absolute)
    cmake_path(RELATIVE_PATH absolute BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE relative)
    string(REGEX REPLACE "^(src|include)/" "" spelled "${relative}")
    string(MAKE_C_IDENTIFIER "${relative}" stem)
    set(source "${CMAKE_CURRENT_BINARY_DIR}/header_check/${stem}.cc")
    # The second inclusion proves the guard.
    file(CONFIGURE OUTPUT "${source}" CONTENT "#include \"${spelled}\"\n#include \"${spelled}\"  // NOLINT\n" @ONLY)
    list(APPEND sources "${source}")
  endforeach()
  set(target forebay_${name}_header_check)
  add_library(${target} OBJECT ${sources})
  target_link_libraries(${target} PRIVATE forebay::${name} ${third_party} forebay_warnings)
  target_compile_options(${target} PRIVATE -O0 -g0)
  set_target_properties(${target} PROPERTIES CXX_CLANG_TIDY "")
  if(NOT TARGET header_check)
    add_custom_target(header_check)
  endif()
  add_dependencies(header_check ${target})
endfunction()

macro(_forebay_refuse_unknown function name)
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${function}(${name}): unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(arg_KEYWORDS_MISSING_VALUES)
    message(FATAL_ERROR "${function}(${name}): no value for: ${arg_KEYWORDS_MISSING_VALUES}")
  endif()
endmacro()
