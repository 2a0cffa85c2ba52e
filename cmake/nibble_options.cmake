# Compile options that every target of the project shares, as one interface target.
# Apart from the lists of targets so that a flag is set in one place.
add_library(nibble_options INTERFACE)
target_compile_options(nibble_options INTERFACE
  # Every multiplication and addition rounds on its own: formats are defined that way (a unit test checks it).
  $<$<COMPILE_LANGUAGE:C,CXX>:-ffp-contract=off>
  $<$<COMPILE_LANGUAGE:C,CXX>:-Wall -Wextra -Wshadow>
  $<$<COMPILE_LANGUAGE:CXX>:-Wconversion>
  # GCC 12 sees overlapping copies in "text" + std::string where there are none (its bug 105651).
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>
  $<$<AND:$<BOOL:${NIBBLE_WERROR}>,$<COMPILE_LANGUAGE:C,CXX>>:-Werror>)
target_include_directories(nibble_options INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
target_compile_definitions(nibble_options INTERFACE NIBBLE_VERSION="${PROJECT_VERSION}")
if(NIBBLE_SANITIZE)
  target_compile_options(nibble_options INTERFACE -fsanitize=${NIBBLE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(nibble_options INTERFACE -fsanitize=${NIBBLE_SANITIZE})
endif()

# fmt from its headers alone, so that nothing installed needs its library. What is sanitized is not installed: there the
# library serves, and most files compile in a third of the time.
add_library(nibble_fmt INTERFACE)
if(NIBBLE_SANITIZE)
  target_link_libraries(nibble_fmt INTERFACE fmt::fmt)
else()
  target_link_libraries(nibble_fmt INTERFACE fmt::fmt-header-only)
endif()
