# `make deb`: what `make install PREFIX=/usr` installs, as a Debian package (preset "deb").

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME firn)
set(CPACK_PACKAGE_CONTACT "the authors of firn")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
# What is linked is found out; the OpenBLAS is the one that results are compared by. etcd may run anywhere.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "systemd, libopenblas0-openmp")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS etcd-server)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
    ${CMAKE_SOURCE_DIR}/systemd/debian/postinst;${CMAKE_SOURCE_DIR}/systemd/debian/prerm;${CMAKE_SOURCE_DIR}/systemd/debian/postrm)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
include(CPack)
