# The files of `make install`: each kind goes where the system looks for it, if the tree has it.
# A file named x.in has its @CMAKE_INSTALL_FULL_BINDIR@ and the like filled in at configure time.

foreach(program firnd firn-worker firnctl)
    if(TARGET ${program})
        install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    endif()
endforeach()

# firn_install(destination FILES pattern... RENAME name): the files that match, x.in as x
function(firn_install destination)
    cmake_parse_arguments(ARG "" "RENAME" "FILES" ${ARGN})
    list(TRANSFORM ARG_FILES PREPEND ${CMAKE_SOURCE_DIR}/)
    file(GLOB files CONFIGURE_DEPENDS ${ARG_FILES})
    foreach(file ${files})
        get_filename_component(name ${file} NAME)
        if(name MATCHES "\\.in$")
            string(REGEX REPLACE "\\.in$" "" name ${name})
            configure_file(${file} ${CMAKE_BINARY_DIR}/install/${name} @ONLY)
            set(file ${CMAKE_BINARY_DIR}/install/${name})
        endif()
        if(ARG_RENAME)
            set(name ${ARG_RENAME})
        endif()
        install(FILES ${file} DESTINATION ${destination} RENAME ${name})
    endforeach()
endfunction()

# Under any prefix: systemd reads /usr/lib and /usr/local/lib alike.
set(units)
foreach(kind service socket target slice path timer)
    list(APPEND units systemd/*.${kind} systemd/*.${kind}.in)
endforeach()
firn_install(lib/systemd/system FILES ${units})
firn_install(lib/sysusers.d FILES systemd/sysusers.conf systemd/sysusers.conf.in RENAME firn.conf)
firn_install(lib/tmpfiles.d FILES systemd/tmpfiles.conf systemd/tmpfiles.conf.in RENAME firn.conf)

# An example, not the configuration in force: the administrator's own is never replaced.
firn_install(${CMAKE_INSTALL_DOCDIR} FILES systemd/firnd.yaml systemd/firnd.yaml.in systemd/firnd-gpu.conf)
firn_install(${CMAKE_INSTALL_DOCDIR} FILES README.md CHANGELOG.md LICENSE docs/*.md)
firn_install(${CMAKE_INSTALL_DOCDIR}/examples FILES examples/*.yaml)

foreach(section 1 5 7 8)
    firn_install(${CMAKE_INSTALL_MANDIR}/man${section} FILES docs/man/*.${section} docs/man/*.${section}.in)
endforeach()
firn_install(${CMAKE_INSTALL_DATADIR}/bash-completion/completions
    FILES ctl/completion/firnctl ctl/completion/firnctl.bash RENAME firnctl)
