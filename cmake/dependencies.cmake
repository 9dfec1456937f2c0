# SPDX-License-Identifier: Apache-2.0
# Every package the tree uses is found here and nowhere else; docs/decisions/0001-dependencies.md says why each.
# A folder links to the targets named on the right.

find_package(Threads REQUIRED)                                     # Threads::Threads
find_package(PkgConfig REQUIRED)
pkg_check_modules(liburing REQUIRED IMPORTED_TARGET liburing>=2.3)          # PkgConfig::liburing
pkg_check_modules(isal REQUIRED IMPORTED_TARGET libisal)                    # PkgConfig::isal
pkg_check_modules(tomlplusplus REQUIRED IMPORTED_TARGET tomlplusplus)       # PkgConfig::tomlplusplus
pkg_check_modules(libfabric QUIET IMPORTED_TARGET libfabric>=1.14)          # forebay_libfabric_headers below, optional
pkg_check_modules(ucx QUIET IMPORTED_TARGET ucx>=1.13)                      # PkgConfig::ucx, optional
find_package(fmt REQUIRED CONFIG)                                  # fmt::fmt
find_package(spdlog REQUIRED CONFIG)                               # spdlog::spdlog
find_package(OpenSSL REQUIRED)                                     # OpenSSL::Crypto OpenSSL::SSL
find_package(CLI11 REQUIRED CONFIG)                                # CLI11::CLI11
find_package(nlohmann_json REQUIRED CONFIG)                          # nlohmann_json::nlohmann_json
find_package(GTest REQUIRED CONFIG)                                # GTest::gtest GTest::gmock GTest::gtest_main

find_package(RocksDB REQUIRED CONFIG)                              # forebay::rocksdb
# The shared library links in a fraction of the time, and brings its compression libraries itself.
add_library(forebay_rocksdb INTERFACE)
add_library(forebay::rocksdb ALIAS forebay_rocksdb)
if(TARGET RocksDB::rocksdb-shared)
  target_link_libraries(forebay_rocksdb INTERFACE RocksDB::rocksdb-shared)
else()
  target_link_libraries(forebay_rocksdb INTERFACE RocksDB::rocksdb)
endif()

find_package(Protobuf REQUIRED)                                    # protobuf::libprotobuf
if(NOT FOREBAY_SANITIZE STREQUAL "thread")
  find_package(gRPC REQUIRED CONFIG)                               # gRPC::grpc++
endif()

# Not everyone has an RDMA stack: what needs it is left out where it is missing.
pkg_check_modules(ibverbs QUIET IMPORTED_TARGET libibverbs)        # PkgConfig::ibverbs
# Loaded when it is asked for, never linked: see src/fabric/ofi_calls.h.
if(TARGET PkgConfig::libfabric)
  add_library(forebay_libfabric_headers INTERFACE)
  target_include_directories(forebay_libfabric_headers SYSTEM INTERFACE
    $<TARGET_PROPERTY:PkgConfig::libfabric,INTERFACE_INCLUDE_DIRECTORIES>)
endif()
