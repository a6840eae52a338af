# One static library per layer: lockstep_library(base SOURCES a.cpp DEPENDS lockstep_x).
# Warnings, visibility and sanitizers are set here and nowhere else.

function(lockstep_flags target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wshadow -Wnon-virtual-dtor
                                           -Wno-missing-field-initializers  # Options structs are built by naming what differs.
                                           # clang's -Wshadow warns of names in the unnamed namespaces of joined files, too; g++'s looks.
                                           "$<$<CXX_COMPILER_ID:Clang>:-Wno-unknown-warning-option;-Wno-shadow>"
                                           $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
  if(LOCKSTEP_SANITIZE)
    set(sanitize -fsanitize=${LOCKSTEP_SANITIZE} -fno-omit-frame-pointer)
    if(LOCKSTEP_SANITIZE MATCHES undefined)
      list(APPEND sanitize -fno-sanitize-recover=all)
      if(LOCKSTEP_TORCH)
        list(APPEND sanitize -fno-sanitize=vptr)  # LibTorch exports no type information for some of its classes.
      endif()
    endif()
    target_compile_options(${target} PRIVATE ${sanitize} $<$<BOOL:${LOCKSTEP_FUZZ}>:-fsanitize=fuzzer-no-link>)
    target_link_options(${target} PUBLIC ${sanitize})
  endif()
endfunction()

function(lockstep_library layer)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  set(target lockstep_${layer})
  add_library(${target} STATIC ${ARG_SOURCES})
  add_library(lockstep::${layer} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${layer})
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                              $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${target} PUBLIC ${ARG_DEPENDS} PRIVATE ${ARG_PRIVATE_DEPENDS})
  target_compile_features(${target} PUBLIC cxx_std_20)
  lockstep_flags(${target})
endfunction()

# lockstep_precompiled(name HEADERS <a.h> OPTIONS -O0 DEPENDS b JOIN 40): headers that are precompiled once. A target
# reads them by lockstep_use_precompiled(target name), and must have the same options, -fPIC among them. JOIN: how many
# files of such a target are compiled as one, if not as many as elsewhere.
function(lockstep_precompiled name)
  cmake_parse_arguments(ARG "" "JOIN" "HEADERS;OPTIONS;DEPENDS" ${ARGN})
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp CONTENT "")
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS})
  lockstep_flags(${name})
  target_compile_options(${name} PRIVATE ${ARG_OPTIONS})  # Last, as in the targets that read the headers.
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
  set_target_properties(${name} PROPERTIES LOCKSTEP_JOIN "${ARG_JOIN}")
endfunction()

function(lockstep_use_precompiled target headers)
  target_precompile_headers(${target} REUSE_FROM ${headers})
  get_target_property(join ${headers} LOCKSTEP_JOIN)
  if(join)
    set_target_properties(${target} PROPERTIES UNITY_BUILD_BATCH_SIZE ${join})
  endif()
endfunction()

# A program of these sources. PRECOMPILED names a target that lockstep_precompiled made; WITH_TORCH_HEADERS is short
# for lockstep_torch_headers.
function(lockstep_program name)
  cmake_parse_arguments(ARG "WITH_TORCH_HEADERS" "PRECOMPILED" "SOURCES;DEPENDS" ${ARGN})
  if(ARG_WITH_TORCH_HEADERS)
    set(ARG_PRECOMPILED lockstep_torch_headers)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS})
  lockstep_flags(${name})
  if(ARG_PRECOMPILED)
    target_compile_options(${name} PRIVATE -fPIC)  # As the headers were compiled, instead of -fPIE.
    lockstep_use_precompiled(${name} ${ARG_PRECOMPILED})
  endif()
endfunction()
