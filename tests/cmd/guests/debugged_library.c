/* tests/cmd/guests/debugged_library.c: a library that is opened while its program is debugged. */
int debugged_answer(void);

int debugged_answer(void)
{
    return 42; /* line: answer */
}
