# `make deb`: package the files of `make install PREFIX=/usr` for Debian (preset "deb").

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME firn)
set(CPACK_PACKAGE_CONTACT "the authors of firn")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
# CPack finds the linked libraries. Results are compared by this build of OpenBLAS. etcd may run on another machine.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "systemd, libopenblas0-openmp")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS etcd-server)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
    ${CMAKE_SOURCE_DIR}/systemd/debian/postinst;${CMAKE_SOURCE_DIR}/systemd/debian/prerm;${CMAKE_SOURCE_DIR}/systemd/debian/postrm)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
include(CPack)
