# libjpeg-turbo and libpng, for the decoders of lockstep/data: LOCKSTEP_WITH_JPEG, LOCKSTEP_WITH_PNG.
#
# Where headers are missing the build goes on with a stand-in that says at run time what to install.
foreach(library JPEG PNG)
  find_package(${library} QUIET)
  set(LOCKSTEP_WITH_${library} ${${library}_FOUND})
  if(NOT LOCKSTEP_WITH_${library})
    message(STATUS "${library} images: not readable, its library was not found")
  endif()
endforeach()
