# Installs BUILD into a prefix of its own, moves it, builds the user's project against it and runs that.
# Moved, because a package that only works where it was installed is broken.
foreach(step
    "${CMAKE_COMMAND};--install;${BUILD};--prefix;${WORK}/first"
    "${CMAKE_COMMAND};-E;rm;-rf;${WORK}/prefix"
    "${CMAKE_COMMAND};-E;rename;${WORK}/first;${WORK}/prefix"
    "${CMAKE_COMMAND};-S;${SOURCE};-B;${WORK}/build;-G;Ninja;-DCMAKE_PREFIX_PATH=${WORK}/prefix;-DCMAKE_CXX_FLAGS=${FLAGS};-DCMAKE_C_FLAGS=${FLAGS}"
    "${CMAKE_COMMAND};--build;${WORK}/build"
    "${WORK}/build/uses_nibble;${DATA}"
    "${WORK}/prefix/bin/nibble;inspect;${DATA}")
  execute_process(COMMAND ${step} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${step}\nended with ${result}:\n${output}")
  endif()
endforeach()
message("${output}")
