# Finds LibTorch in a pip wheel or an unpacked archive, with or without a CUDA toolkit.
#
# Looks at LIBTORCH_ROOT (CMake or environment variable), then asks a Python that
# has torch: LOCKSTEP_PYTHON, the project's .venv, the active python3. Torch is not imported.
#
# Defines LibTorch::c10 and LibTorch::torch_cpu, and where present LibTorch::c10_cuda and
# LibTorch::torch_cuda; sets LibTorch_VERSION, LibTorch_ROOT_DIR and LibTorch_PYTHON.
# The wheel's own TorchConfig.cmake is not used: it fails without a toolkit and probes GPUs.

set(LIBTORCH_ROOT "$ENV{LIBTORCH_ROOT}" CACHE PATH "Folder with LibTorch's include/ and lib/")
set(LOCKSTEP_PYTHON "$ENV{LOCKSTEP_PYTHON}" CACHE STRING "A Python interpreter that has torch")

set(LibTorch_ROOT_DIR "")
set(_tried "")
if(LIBTORCH_ROOT)
  if(EXISTS "${LIBTORCH_ROOT}/lib/libtorch_cpu.so")
    set(LibTorch_ROOT_DIR "${LIBTORCH_ROOT}")
  endif()
  string(APPEND _tried "\n  LIBTORCH_ROOT=${LIBTORCH_ROOT} (no lib/libtorch_cpu.so there)")
else()
  set(_pythons "${LOCKSTEP_PYTHON}")
  if(NOT LOCKSTEP_PYTHON)
    set(_pythons "${CMAKE_SOURCE_DIR}/.venv/bin/python" python3 python)
  endif()
  if(LibTorch_HINT)  # Where an installed lockstep was built with it.
    if(EXISTS "${LibTorch_HINT}/lib/libtorch_cpu.so")
      set(LibTorch_ROOT_DIR "${LibTorch_HINT}")
    endif()
    string(APPEND _tried "\n  ${LibTorch_HINT} (no lib/libtorch_cpu.so there any more)")
  endif()
  foreach(_python IN LISTS _pythons)
    if(LibTorch_ROOT_DIR)
      break()
    endif()
    execute_process(
      COMMAND "${_python}" -c
              "import importlib.util as u, os, sys; s = u.find_spec('torch'); print((os.path.dirname(s.origin) if s and s.origin else '') + ';' + sys.executable)"
      OUTPUT_VARIABLE _answer ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE _status)
    list(LENGTH _answer _parts)
    if(_status EQUAL 0 AND _parts EQUAL 2)
      list(GET _answer 0 _folder)
      if(_folder AND EXISTS "${_folder}/lib/libtorch_cpu.so")
        set(LibTorch_ROOT_DIR "${_folder}")
        list(GET _answer 1 LibTorch_PYTHON)
      endif()
    endif()
    string(APPEND _tried "\n  ${_python} (cannot run, or has no torch)")
  endforeach()
endif()

if(NOT LibTorch_ROOT_DIR)
  message(FATAL_ERROR
    "lockstep needs LibTorch 2.11 to 2.15 and found none. Tried:${_tried}\n"
    "Mend it with one of:\n"
    "  make setup                                      # installs torch into .venv\n"
    "  cmake -DLOCKSTEP_PYTHON=/path/to/python3 ...    # a Python that has torch\n"
    "  cmake -DLIBTORCH_ROOT=/path/to/libtorch ...     # an unpacked LibTorch")
endif()

# Two copies of libstdc++ in one process free each other's memory ("free(): invalid pointer" at the
# first stream): a compiler that has only the static one cannot link against LibTorch.
execute_process(COMMAND "${CMAKE_CXX_COMPILER}" -print-file-name=libstdc++.so
                OUTPUT_VARIABLE _stdcxx OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(_stdcxx STREQUAL "libstdc++.so")
  message(FATAL_ERROR "${CMAKE_CXX_COMPILER} has no shared libstdc++, which LibTorch needs; choose another "
                      "compiler, e.g. CXX=/usr/bin/g++ cmake ... in a fresh build folder")
endif()

set(LibTorch_VERSION "")
foreach(_file version.py ../build-version build-version)
  if(EXISTS "${LibTorch_ROOT_DIR}/${_file}")
    file(READ "${LibTorch_ROOT_DIR}/${_file}" _text)
    if(_text MATCHES "([0-9]+\\.[0-9]+\\.[0-9]+)")
      set(LibTorch_VERSION "${CMAKE_MATCH_1}")
      break()
    endif()
  endif()
endforeach()
if(NOT LibTorch_VERSION)
  message(FATAL_ERROR "LibTorch at ${LibTorch_ROOT_DIR} has no readable version (version.py or build-version)")
endif()
if(LibTorch_VERSION VERSION_LESS 2.11)
  message(FATAL_ERROR "LibTorch ${LibTorch_VERSION} at ${LibTorch_ROOT_DIR} is too old: lockstep supports 2.11 to 2.15")
endif()
if(LibTorch_VERSION VERSION_GREATER_EQUAL 2.16)
  message(WARNING "LibTorch ${LibTorch_VERSION} at ${LibTorch_ROOT_DIR} is newer than lockstep was tested with (2.11 to 2.15)")
endif()

function(_libtorch_target name)
  if(TARGET LibTorch::${name} OR NOT EXISTS "${LibTorch_ROOT_DIR}/lib/lib${name}.so")
    return()
  endif()
  add_library(LibTorch::${name} SHARED IMPORTED)
  set_target_properties(LibTorch::${name} PROPERTIES
    IMPORTED_LOCATION "${LibTorch_ROOT_DIR}/lib/lib${name}.so"
    INTERFACE_INCLUDE_DIRECTORIES
      "${LibTorch_ROOT_DIR}/include;${LibTorch_ROOT_DIR}/include/torch/csrc/api/include"
    INTERFACE_COMPILE_DEFINITIONS "USE_DISTRIBUTED;USE_C10D_GLOO;_GLIBCXX_USE_CXX11_ABI=1"
    # Wheels name libraries of their own (OpenBLAS, CUDA) that the linker cannot see and need not.
    INTERFACE_LINK_OPTIONS "-Wl,--allow-shlib-undefined")
endfunction()
foreach(_name c10 torch_cpu c10_cuda torch_cuda)
  _libtorch_target(${_name})
endforeach()
if(NOT LibTorch_FIND_QUIETLY)
  message(STATUS "LibTorch ${LibTorch_VERSION} at ${LibTorch_ROOT_DIR}")
endif()
set(LibTorch_FOUND TRUE)
