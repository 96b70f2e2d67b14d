/* tests/spawn/guests/missing.c: a library that is not there when it is wanted. */
extern int missing_library;
int missing_library;
