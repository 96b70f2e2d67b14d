/* tests/cmd/guests/program.c: a program that does nothing; with -DGO it looks like one of Go's. */
#ifdef GO
const char build_information[] = "\xff Go buildinf:";
#endif

int main(void)
{
#ifdef GO
    return build_information[1] != ' ';
#else
    return 0;
#endif
}
