// The smallest program that goes through all of stdio: one formatted line.
// The first argument, if there is one, takes the place of "a slot".
#include <stdio.h>

int main(int argc, char **argv) {
    printf("hello from %s\n", argc > 1 ? argv[1] : "a slot");
    return 0;
}
