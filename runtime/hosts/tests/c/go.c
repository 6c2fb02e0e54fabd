// A host that installs the runtime's handlers before it loads a Go library, which installs its own.
//
//     program LIBRARY
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

void pirn_hosts_open(void);

int main(int count, char **arguments) {
    void *library;
    void (*run)(void);

    if (count != 2)
        return 2;
    pirn_hosts_open();
    library = dlopen(arguments[1], RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 3;
    }
    *(void **)&run = dlsym(library, "goRun");
    if (!run)
        return 4;
    run();
    return 0;
}
