# `cmake --install`: programs, libraries, headers, and what find_package(lockstep CONFIG) reads.
include(CMakePackageConfigHelpers)

# lockstep-bench stays in the build tree, beside the examples and peers that it runs.
foreach(program lockstep lockstep-inspect lockstep-store lockstep-train)
  if(NOT TARGET ${program})
    continue()
  endif()
  install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  get_target_property(links ${program} LINK_LIBRARIES)
  if(links MATCHES "LibTorch::|lockstep_comm|lockstep_parallel|lockstep_train")
    # Said outright: CMake keeps no path inside the source tree by itself, and .venv is there.
    set_target_properties(${program} PROPERTIES INSTALL_RPATH "${LibTorch_ROOT_DIR}/lib")
  endif()
endforeach()

# The launcher is part of the trainer, which starts ranks; its headers are not for users.
install(TARGETS lockstep_base lockstep_cluster lockstep_net lockstep_shm lockstep_launch lockstep_log lockstep_device lockstep_data lockstep_checkpoint lockstep_nn lockstep_models lockstep_comm lockstep_parallel lockstep_train_run lockstep_train lockstep_all EXPORT lockstepTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/public_headers.txt headers REGEX "^lockstep/")
foreach(header IN LISTS headers)
  cmake_path(GET header PARENT_PATH folder)
  install(FILES ${PROJECT_SOURCE_DIR}/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder})
endforeach()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/lockstepConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/lockstepConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/lockstepConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(EXPORT lockstepTargets NAMESPACE lockstep:: DESTINATION ${package_dir})
install(FILES ${PROJECT_BINARY_DIR}/lockstepConfig.cmake ${PROJECT_BINARY_DIR}/lockstepConfigVersion.cmake
              ${CMAKE_CURRENT_LIST_DIR}/FindLibTorch.cmake
        DESTINATION ${package_dir})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/lockstep)
