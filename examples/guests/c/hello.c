// The smallest program that uses all layers of stdio: one formatted line.
// The first argument, if there is one, replaces "a slot".
#include <stdio.h>

int main(int argc, char **argv) {
    printf("hello from %s\n", argc > 1 ? argv[1] : "a slot");
    return 0;
}
