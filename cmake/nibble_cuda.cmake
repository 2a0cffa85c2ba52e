# Finds a CUDA compiler, or says in one line that there is none; sets NIBBLE_HAVE_CUDA.
# Apart from the back ends because two of them, and tests, use the language, and CMake wants it enabled above all users.
option(NIBBLE_CUDA "Build the CUDA back ends where there is a CUDA compiler" ON)
option(NIBBLE_CUDA_SM103 "Build the back end for compute capability 10.3 beside the generic one" ON)
set(NIBBLE_CUDA_ARCHITECTURES "90" CACHE STRING "CUDA architectures as CMAKE_CUDA_ARCHITECTURES takes them")

set(NIBBLE_HAVE_CUDA OFF)
if(NIBBLE_CUDA)
  include(CheckLanguage)
  set(CMAKE_CUDA_ARCHITECTURES ${NIBBLE_CUDA_ARCHITECTURES})
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    # The plugins hold the list, to say on which devices they run: CMake's words for it become the numbers that it found.
    set(NIBBLE_CUDA_IMAGES ${NIBBLE_CUDA_ARCHITECTURES})
    if(NIBBLE_CUDA_ARCHITECTURES MATCHES "^(native|all|all-major)$")
      string(TOUPPER ${NIBBLE_CUDA_ARCHITECTURES} word)
      string(REPLACE "-" "_" word ${word})
      set(NIBBLE_CUDA_IMAGES ${CMAKE_CUDA_ARCHITECTURES_${word}})
      if(NOT NIBBLE_CUDA_IMAGES MATCHES "^[0-9]")
        message(FATAL_ERROR "nibble: NIBBLE_CUDA_ARCHITECTURES=${NIBBLE_CUDA_ARCHITECTURES} finds none here: expected a GPU, or numbers such as 90;103")
      endif()
    endif()
    # CMake 3.25 does not know that NVIDIA's compiler speaks C++20.
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
    find_package(CUDAToolkit REQUIRED)
    set(NIBBLE_HAVE_CUDA ON)
  else()
    message(STATUS "nibble: no CUDA compiler was found, so the CUDA back ends are not built")
  endif()
endif()

# What every target with CUDA sources shares.
add_library(nibble_cuda_options INTERFACE)
target_compile_options(nibble_cuda_options INTERFACE
  # Subnormals are kept and no product is fused with a sum. The sources say so too where it matters.
  "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;-ftz=false;-fmad=false>"
  "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Xcompiler -Wall,-Wextra,-Wshadow>"
  "$<$<AND:$<BOOL:${NIBBLE_WERROR}>,$<COMPILE_LANGUAGE:CUDA>>:SHELL:-Werror all-warnings -Xcompiler -Werror>")
target_link_libraries(nibble_cuda_options INTERFACE nibble_options)
