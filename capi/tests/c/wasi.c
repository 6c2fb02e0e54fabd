/* Runs a WASI program with everything that the library can give it. Prints the program's captured
 * output, and returns its exit code.
 *
 * wasi PROGRAM.so (host | memory | read-only) FOLDER INPUT VARIABLES ARGUMENT...
 */

#include <fcntl.h>
#include <pirn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void check(pirn_error_t *error) {
    if (error != NULL) {
        fprintf(stderr, "wasi: %s\n", pirn_error_report(error));
        pirn_error_delete(error);
        exit(99);
    }
}

/* The bytes of a small file, with a zero byte after them. */
static char *read_file(const char *path, size_t *len) {
    static char text[2][65536];
    static int calls;
    FILE *file = fopen(path, "rb");
    char *into = text[calls++ % 2];
    *len = file == NULL ? 0 : fread(into, 1, sizeof text[0] - 1, file);
    into[*len] = 0;
    if (file != NULL) {
        fclose(file);
    }
    return into;
}

static void give(pirn_wasi_t *wasi, char **argv, int argc) {
    size_t len;
    char *input = read_file(argv[4], &len);
    check(pirn_wasi_stdin_bytes(wasi, (const uint8_t *)input, len));
    char *line = strtok(read_file(argv[5], &len), "\n");
    for (; line != NULL; line = strtok(NULL, "\n")) {
        char *value = strchr(line, '=');
        *value = 0;
        check(pirn_wasi_env(wasi, line, value + 1));
    }
    check(pirn_wasi_arg(wasi, "program"));
    for (int at = 6; at < argc; at++) {
        check(pirn_wasi_arg(wasi, argv[at]));
    }
    check(pirn_wasi_descriptors_max(wasi, 16));
    check(pirn_wasi_disk_bytes_max(wasi, 1 << 20));
    if (strcmp(argv[2], "memory") == 0) {
        pirn_files_t *files, *clone;
        check(pirn_files_open(argv[3], &files));
        clone = pirn_files_clone(files);
        pirn_files_delete(files);
        check(pirn_wasi_memory_dir(wasi, clone, "/data", 1 << 20, 0));
        pirn_files_delete(clone);
    } else {
        check(pirn_wasi_preopen_dir(wasi, argv[3], "/data", strcmp(argv[2], "read-only") == 0));
    }
    check(pirn_wasi_stdio_fd(wasi, PIRN_STDERR, STDERR_FILENO));
}

int main(int argc, char **argv) {
    if (argc < 6) {
        return 98;
    }
    pirn_module_t *module;
    pirn_region_t *region;
    pirn_prepared_t *prepared;
    pirn_instance_t *instance;
    pirn_capture_t *capture;
    pirn_bytes_t *output;
    const pirn_region_option_t slots = {PIRN_REGION_SLOTS, 1};
    check(pirn_module_open(argv[1], &module));
    check(pirn_region_new(&slots, 1, &region));
    pirn_linker_t *linker = pirn_linker_new();
    check(pirn_linker_wasi(linker));
    check(pirn_region_prepare(region, module, linker, &prepared));
    pirn_wasi_t *wasi = pirn_wasi_new();
    give(wasi, argv, argc);
    check(pirn_wasi_capture(wasi, PIRN_STDOUT, 1 << 16, &capture));
    check(pirn_instance_new(prepared, NULL, wasi, 0, &instance));
    pirn_error_t *ended = pirn_instance_call_name(instance, "_start", NULL, NULL, 0, NULL, 0);
    int code = 0;
    if (ended != NULL && pirn_error_kind(ended) != PIRN_ERROR_EXIT) {
        check(ended);
    }
    code = (int)pirn_error_exit_code(ended);
    pirn_error_delete(ended);
    pirn_instance_delete(instance);
    /* The capture outlives the instance. */
    check(pirn_capture_bytes(capture, &output));
    fwrite(pirn_bytes_data(output), 1, pirn_bytes_len(output), stdout);
    pirn_bytes_delete(output);
    pirn_capture_delete(capture);
    pirn_prepared_delete(prepared);
    pirn_linker_delete(linker);
    pirn_region_delete(region);
    pirn_module_delete(module);
    return code;
}
