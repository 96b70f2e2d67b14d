// tests/headers.c: empty, as headers.cpp is.
