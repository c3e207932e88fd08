# One static library a room, one program a main file, one executable a test file.

set(FIRN_WARNINGS
    -Wall -Wextra -Wshadow -Wconversion -Wsign-conversion -Wstrict-prototypes -Wmissing-prototypes
    -Wpointer-arith -Wvla -Wundef -Wformat=2 -Wimplicit-fallthrough -Werror)

add_library(firn_options INTERFACE)
target_compile_features(firn_options INTERFACE c_std_17)
target_compile_options(firn_options INTERFACE
    $<$<COMPILE_LANGUAGE:C>:${FIRN_WARNINGS} -fno-omit-frame-pointer -ffp-contract=off
    -fstack-protector-strong -UNDEBUG>) # assertions stay on, whatever the build type
target_compile_definitions(firn_options INTERFACE _GNU_SOURCE FIRN_VERSION="${PROJECT_VERSION}")
target_include_directories(firn_options INTERFACE ${CMAKE_SOURCE_DIR})

set(FIRN_SANITIZE "" CACHE STRING "Sanitizers to build with: address,undefined or thread")
if(FIRN_SANITIZE)
    # gcc's flow warnings misjudge instrumented code; the plain build is the one held to them.
    target_compile_options(firn_options INTERFACE
        -fsanitize=${FIRN_SANITIZE} -fno-sanitize-recover=all -Wno-error)
    target_link_options(firn_options INTERFACE -fsanitize=${FIRN_SANITIZE})
endif()

# What Debian's hardening asks for, which tests/lint/hardening.py looks for in the programs. Sanitizers
# have checks of their own in place of the library's.
if(NOT FIRN_SANITIZE AND NOT FIRN_FUZZ)
    target_compile_options(firn_options INTERFACE
        $<$<COMPILE_LANGUAGE:C>:-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-clash-protection>)
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
        target_compile_options(firn_options INTERFACE $<$<COMPILE_LANGUAGE:C>:-fcf-protection>)
    endif()
    target_link_options(firn_options INTERFACE -Wl,-z,relro,-z,now,-z,noexecstack)
endif()

# Coverage of every decoder steers a fuzzer, so all of it is instrumented, not the targets alone.
option(FIRN_FUZZ "Build the fuzz targets with libFuzzer (clang)" OFF)
if(FIRN_FUZZ)
    target_compile_options(firn_options INTERFACE
        $<$<COMPILE_LANGUAGE:C>:-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -Wno-error>)
    target_link_options(firn_options INTERFACE -fsanitize=address,undefined)
endif()

# firn_library(NAME ROOMS room... DEPENDS other... LIBRARIES imported...)
# The library of a folder, of every .c file in it. Each room is a static library of its own (firn_<folder>_<room>), made of
# its .c files, and so are the files beside the rooms. Their order is the dependency rule, which
# tests/lint/rules.py holds includes to; the linker goes round a folder's rooms until all is found,
# because what a room is given as a callback may be defined above it.
function(firn_library name)
    cmake_parse_arguments(ARG "" "" "ROOMS;DEPENDS;LIBRARIES;SOURCES" ${ARGN})
    set(libraries)
    foreach(room . ${ARG_ROOMS})
        file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${room}/*.c)
        list(FILTER sources EXCLUDE REGEX "/main\\.c$")
        set(target firn_${name}_${room})
        if(room STREQUAL ".")
            list(APPEND sources ${ARG_SOURCES})
            set(target firn_${name}_top)
        endif()
        if(sources)
            add_library(${target} STATIC ${sources})
            target_link_libraries(${target} PUBLIC firn_options ${ARG_DEPENDS} ${ARG_LIBRARIES})
            list(APPEND libraries ${target})
        endif()
    endforeach()
    add_library(firn_${name} INTERFACE)
    list(JOIN libraries "," group)
    if(group)
        target_link_libraries(firn_${name} INTERFACE "$<LINK_GROUP:RESCAN,${group}>")
    endif()
    target_link_libraries(firn_${name} INTERFACE firn_options ${ARG_DEPENDS} ${ARG_LIBRARIES})
endfunction()

# firn_program(NAME folder): the folder's main.c linked with the folder's library
function(firn_program name folder)
    if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/main.c)
        add_executable(${name} main.c)
        target_link_libraries(${name} PRIVATE firn_${folder})
    endif()
endfunction()

set(FIRN_TEST_SECONDS 300) # that a test may take
if(FIRN_SANITIZE)
    set(FIRN_TEST_SECONDS 900)
endif()

# Every program of unit, parity and fuzz tests and of scenes: the builds with sanitizers need nothing else.
add_custom_target(firn_test_programs)

# glibc fills what it allocates and what is freed with this byte: nothing may depend on zeros.
set(FIRN_TEST_ENVIRONMENT MALLOC_PERTURB_=165)

# firn_tests(folder library...): every test_*.c of the folder and of its rooms is one cmocka program
# and one test
function(firn_tests folder)
    file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/test_*.c
                                      ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*/test_*.c)
    foreach(source ${tests})
        get_filename_component(name ${source} NAME_WE)
        string(REPLACE "/" "_" prefix ${folder})
        set(target ${prefix}_${name})
        add_executable(${target} ${source})
        target_link_libraries(${target} PRIVATE ${ARGN} firn_options PkgConfig::CMOCKA)
        target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
        target_compile_definitions(${target} PRIVATE FIRN_SOURCE="${CMAKE_SOURCE_DIR}")
        set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
        add_dependencies(firn_test_programs ${target})
        add_test(NAME ${target} COMMAND ${target})
        set_tests_properties(${target} PROPERTIES TIMEOUT ${FIRN_TEST_SECONDS}
            ENVIRONMENT "${FIRN_TEST_ENVIRONMENT}")
    endforeach()
endfunction()
