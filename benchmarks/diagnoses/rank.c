/* A rank that is no Python, and waits for nobody: run as rank.py is. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const char *rank = getenv("RANK");
    char path[4096];
    snprintf(path, sizeof path, "%s/begun-%s", argv[4], rank);
    fclose(fopen(path, "w"));
    if (!strcmp(argv[1], "stopped") && !strcmp(rank, argv[2]))
        raise(SIGSTOP);
    pause();
    return 0;
}
