# cmake -DHEADERS=FILE;… -DOUTPUT=FILE -P abi_tag.cmake: writes the ABI tag, a hash over the text of the headers.
set(hashes)
foreach(header ${HEADERS})
  file(SHA256 ${header} hash)
  string(APPEND hashes ${hash})
endforeach()
string(SHA256 tag "${hashes}")
string(SUBSTRING ${tag} 0 16 tag)
file(WRITE ${OUTPUT} "#define ONESPACE_ABI_TAG UINT64_C(0x${tag})\n")
