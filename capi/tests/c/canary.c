/* Faults that AddressSanitizer and valgrind must find: without them, a clean run says nothing. */

#include <pirn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    if (argc != 2) {
        return 2;
    }
    if (strcmp(argv[1], "leak") == 0) {
        /* Nothing frees these errors. An old pointer on the stack may lead to the last of them. */
        for (int n = 0; n < 100; n++) {
            if (pirn_error_kind(pirn_error_new("a leak", 0)) != PIRN_ERROR_HOST) {
                return 2;
            }
        }
        return 0;
    }
    pirn_error_t *error = pirn_error_new("freed too early", 0);
    const char *message = pirn_error_message(error);
    pirn_error_delete(error);
    printf("%c\n", message[0]);
    return 0;
}
