// tests/headers.cpp: empty; the precompiled headers of the tests belong to its target.
