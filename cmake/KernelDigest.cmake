# cmake -DOUTPUT=FILE -DCOMPILER=TEXT -DSOURCE=FOLDER -DFILES=FILE;... -P KernelDigest.cmake: writes a header with
# a digest of the kernels' sources and the compiler's version. The names count relative to SOURCE: two checkouts
# of one commit have one digest.
set(all "${COMPILER}\n")
foreach(file ${FILES})
    file(SHA256 ${file} digest)
    file(RELATIVE_PATH name ${SOURCE} ${file})
    string(APPEND all "${name} ${digest}\n")
endforeach()
string(SHA256 digest "${all}")
string(SUBSTRING ${digest} 0 8 digest)
file(WRITE ${OUTPUT} "/* Made by cmake/KernelDigest.cmake. */\n#define KERNEL_CODE_DIGEST \"${digest}\"\n")
