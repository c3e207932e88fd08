# The CUDA toolkit, where there is one. FIRN_CUDA_FOUND says so; without it the backend is left out
# with one line; where CUDA is all that is wanted (-DFIRN_CUDA=REQUIRED) that is an error. nvcc is also looked for where NVIDIA installs it, since few put it on their PATH.
set(FIRN_CUDA_FOUND OFF)
file(GLOB_RECURSE FIRN_CUDA_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/cuda/*.cu)

# Ampere, Hopper, Blackwell (data center and desktop); PTX of the newest one for what comes later.
set(FIRN_CUDA_ARCHITECTURES 80 90 100 120 CACHE STRING "compute capabilities without their point")

# firn_cuda_architectures(RET): those of the list that this nvcc knows, as CMake wants them
function(firn_cuda_architectures ret)
    execute_process(COMMAND ${FIRN_NVCC} --list-gpu-code OUTPUT_VARIABLE known RESULT_VARIABLE failed)
    set(supported)
    foreach(architecture ${FIRN_CUDA_ARCHITECTURES})
        if(NOT failed AND known MATCHES "sm_${architecture}\n")
            list(APPEND supported ${architecture})
        endif()
    endforeach()
    list(POP_BACK supported newest)
    list(TRANSFORM supported APPEND -real)
    set(${ret} ${supported} ${newest} PARENT_SCOPE) # no suffix: machine code and PTX
endfunction()

# firn_cublaslt(): cuBLASLt from the folder FIRN_CUBLASLT_ROOT with include/ and lib/, as pip installs it, where the
# toolkit has none.
function(firn_cublaslt)
    if(TARGET CUDA::cublasLt)
        return()
    endif()
    find_library(FIRN_CUBLASLT_LIBRARY NAMES cublasLt libcublasLt.so.13 PATHS $ENV{FIRN_CUBLASLT_ROOT}/lib REQUIRED)
    find_path(FIRN_CUBLASLT_INCLUDE cublasLt.h PATHS $ENV{FIRN_CUBLASLT_ROOT}/include REQUIRED)
    add_library(CUDA::cublasLt UNKNOWN IMPORTED GLOBAL)
    set_target_properties(CUDA::cublasLt PROPERTIES IMPORTED_LOCATION ${FIRN_CUBLASLT_LIBRARY}
        INTERFACE_INCLUDE_DIRECTORIES ${FIRN_CUBLASLT_INCLUDE})
    target_link_libraries(CUDA::cublasLt INTERFACE CUDA::cudart_static)
endfunction()

if(NOT FIRN_CUDA)
    set(reason "FIRN_CUDA is off")
elseif(NOT FIRN_CUDA_SOURCES)
    set(reason "kernels/cuda has no sources")
else()
    find_program(FIRN_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
    if(FIRN_NVCC)
        firn_cuda_architectures(CMAKE_CUDA_ARCHITECTURES)
    endif()
    if(NOT FIRN_NVCC)
        set(reason "nvcc was not found")
    elseif(NOT CMAKE_CUDA_ARCHITECTURES)
        set(reason "${FIRN_NVCC} knows none of the architectures ${FIRN_CUDA_ARCHITECTURES}")
    else()
        set(CMAKE_CUDA_COMPILER ${FIRN_NVCC})
        set(CMAKE_CUDA_STANDARD 17)
        set(CMAKE_CUDA_STANDARD_REQUIRED ON)
        enable_language(CUDA)
        find_package(CUDAToolkit REQUIRED)
        firn_cublaslt()
        set(FIRN_CUDA_FOUND ON)
    endif()
endif()

if(NOT FIRN_CUDA_FOUND AND FIRN_CUDA STREQUAL "REQUIRED")
    message(FATAL_ERROR "firn: the CUDA backend cannot be built: ${reason}")
elseif(NOT FIRN_CUDA_FOUND)
    message(NOTICE "firn: the CUDA backend is left out: ${reason}")
endif()

# firn_kernel_digest(): the target makes the header kernel_digest.h, with a digest of everything that decides about
# the bits of our kernels. It is part of the identity by which GPUs are compared.
function(firn_kernel_digest)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/cuda/*.cu ${CMAKE_SOURCE_DIR}/kernels/cuda/*.cuh
        ${CMAKE_SOURCE_DIR}/kernels/cuda/*.h ${CMAKE_SOURCE_DIR}/kernels/*.h)
    list(SORT sources)
    set(header ${CMAKE_BINARY_DIR}/generated/kernel_digest.h)
    add_custom_command(OUTPUT ${header}
        COMMAND ${CMAKE_COMMAND} -DOUTPUT=${header} "-DCOMPILER=${CMAKE_CUDA_COMPILER_VERSION}"
            -DSOURCE=${CMAKE_SOURCE_DIR} "-DFILES=${sources}" -P ${CMAKE_SOURCE_DIR}/cmake/KernelDigest.cmake
        DEPENDS ${sources} ${CMAKE_SOURCE_DIR}/cmake/KernelDigest.cmake VERBATIM)
    add_custom_target(firn_kernel_digest DEPENDS ${header})
endfunction()

# firn_cuda_backend(): the sources below kernels/cuda become libfirn-cuda.so beside the programs. The worker loads it at
# run time (kernels/backend.h), so nothing links CUDA. Never with fast-math; contraction into FMA stays,
# since one kind of device runs one machine code.
function(firn_cuda_backend)
    if(NOT FIRN_CUDA_FOUND)
        return()
    endif()
    add_library(firn-cuda SHARED ${FIRN_CUDA_SOURCES} ${CMAKE_SOURCE_DIR}/base/error.c)
    set_target_properties(firn-cuda PROPERTIES
        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}
        POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden)
    target_compile_options(firn-cuda PRIVATE
        $<$<COMPILE_LANGUAGE:CUDA>:-lineinfo -UNDEBUG -Xcompiler=-Wall,-Wextra,-Werror>)
    add_dependencies(firn-cuda firn_kernel_digest)
    target_include_directories(firn-cuda PRIVATE ${CMAKE_BINARY_DIR}/generated)
    target_link_libraries(firn-cuda PRIVATE firn_options CUDA::cudart_static CUDA::cublasLt ${CMAKE_DL_LIBS})
    install(TARGETS firn-cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/firn)
endfunction()
