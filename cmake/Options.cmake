# What can be chosen at configure time.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release or RelWithDebInfo" FORCE)
endif()

option(LOCKSTEP_TORCH "Build the parts that need LibTorch" ON)
option(LOCKSTEP_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(LOCKSTEP_EXAMPLES "Build the example programs" ${PROJECT_IS_TOP_LEVEL})
option(LOCKSTEP_PYTHON_ONLY "Only what the Python package needs; pip sets it" OFF)
option(LOCKSTEP_UNITY "Compile many files as one: a quarter of the time from nothing, more after a small change" ${PROJECT_IS_TOP_LEVEL})
option(LOCKSTEP_FUZZ "Build the libFuzzer targets (clang only)" OFF)
set(LOCKSTEP_SANITIZE "" CACHE STRING "Sanitizers for all targets, e.g. address,undefined or thread")
set(LOCKSTEP_CUDA AUTO CACHE STRING "ON, OFF, or AUTO: on where toolkit, LibTorch's CUDA part and a driver are found")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# Most of a file's time goes into torch's headers and templates, or gmock's.
set(CMAKE_UNITY_BUILD ${LOCKSTEP_UNITY})
set(CMAKE_UNITY_BUILD_BATCH_SIZE 14)

if(PROJECT_IS_TOP_LEVEL)
  # Quicker to build than -O3; loops that gain from more ask for it themselves.
  set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
  find_program(LOCKSTEP_CCACHE ccache)
  if(LOCKSTEP_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    # Sloppiness: without it ccache never reuses what was compiled with a precompiled header. Depend: a file that is
    # new to it is compiled at once, and not preprocessed first, which takes 1.5 s where torch is included.
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_DEPEND=1
                                    ${LOCKSTEP_CCACHE})
  endif()
  # Not mold 1.10: it lets the relro segment begin with .tbss, which may lie before the page that is
  # mapped. Such a program does not start: "cannot apply additional memory protection".
  find_program(LOCKSTEP_MOLD mold)
  if(LOCKSTEP_MOLD AND NOT LOCKSTEP_SANITIZE)
    execute_process(COMMAND ${LOCKSTEP_MOLD} --version OUTPUT_VARIABLE mold_version)
    if(mold_version MATCHES "mold ([0-9.]+)" AND CMAKE_MATCH_1 VERSION_GREATER_EQUAL 2)
      add_link_options(-fuse-ld=mold)
    endif()
  endif()
endif()
