# Installs BUILD into a prefix of its own, moves it, and uses it as others would: a user's project, and docs/plugins.md's
# back end. Moved, because a package that only works where it was installed is broken.

# run(COMMAND...): its output in `output`; a failure ends the test.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGN}\nended with ${result}:\n${text}")
  endif()
  set(output "${text}" PARENT_SCOPE)
endfunction()

# expect(TEXT): the last output holds it.
function(expect text)
  string(FIND "${output}" "${text}" place)
  if(place EQUAL -1)
    message(FATAL_ERROR "expected '${text}' in:\n${output}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/first)
file(RENAME ${WORK}/first ${WORK}/prefix)
set(bin ${WORK}/prefix/bin)

run(${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/build -G Ninja -DCMAKE_PREFIX_PATH=${WORK}/prefix)
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/uses_nibble ${DATA})
message("${output}")
run(${bin}/nibble inspect ${DATA})

# The example of a back end outside the source tree, once as it is and once as a rival of the best.
foreach(tier GENERIC TUNED)
  set(example ${WORK}/example_${tier})
  run(${CMAKE_COMMAND} -S ${EXAMPLE} -B ${example} -G Ninja -DCMAKE_PREFIX_PATH=${WORK}/prefix -DEXAMPLE_TIER=NIBBLE_TIER_${tier})
  run(${CMAKE_COMMAND} --build ${example})
endforeach()
set(found ${CMAKE_COMMAND} -E env NIBBLE_PLUGIN_PATH=${WORK}/example_GENERIC)
run(${found} ${bin}/nibble info)
expect("example.dequantize.q4_0")
run(${found} ${bin}/nibble explain dequantize --format q4_0)
expect("+ example.dequantize.q4_0")
expect("fits; tier generic, rank 1")
run(${found} NIBBLE_FORCE=dequantize=example.dequantize.q4_0 ${bin}/nibble explain dequantize --format q4_0)
expect("example.dequantize.q4_0 on cpu")
run(${found} ${bin}/nibble verify ${DATA})
run(${CMAKE_COMMAND} -E env NIBBLE_PLUGIN_PATH=${WORK}/example_TUNED NIBBLE_BACKEND=example,cpu
  ${bin}/nibble explain dequantize --format q4_0)
expect("example.dequantize.q4_0 on cpu")
run(${found} NIBBLE_BACKEND=example NIBBLE_TEST_REQUIRE=example ${bin}/nibble_conformance)
expect("example: ")
string(REGEX MATCH "example: [^\n]*" line "${output}")
message("${line}")
