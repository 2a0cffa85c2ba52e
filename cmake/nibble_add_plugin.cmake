# nibble_add_plugin(NAME SOURCES...): a plugin file nibble_NAME.so that exports its query function and nothing else.
# Apart from the build's other files because it is installed for plugin authors too.
set(NIBBLE_PLUGIN_EXPORTS ${CMAKE_CURRENT_LIST_DIR}/nibble_plugin.map)

function(nibble_add_plugin name)
  add_library(nibble_${name} MODULE ${ARGN})
  set_target_properties(nibble_${name} PROPERTIES
    PREFIX "" C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_link_options(nibble_${name} PRIVATE LINKER:--version-script=${NIBBLE_PLUGIN_EXPORTS})
  set_property(TARGET nibble_${name} APPEND PROPERTY LINK_DEPENDS ${NIBBLE_PLUGIN_EXPORTS})
  if(TARGET nibble::headers)
    target_link_libraries(nibble_${name} PRIVATE nibble::headers)
  endif()
endfunction()
