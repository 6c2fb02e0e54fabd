// Runs a static method of a Java program again and again, in one virtual machine or in a forked
// process with a virtual machine of its own for each run.
//
//     jvm shared|fork|print CLASS_PATH CLASS [ARGUMENT]
//
// `print` runs the program once, with its output on standard output. The others read a number of
// runs in each line of standard input, and answer each line with the nanoseconds that they took.
// These programs discard the output of the Java program.
//
// A fork copies the calling thread only. A virtual machine has other threads, which a child would
// miss: collectors, compilers, the thread of safepoints. So the parent loads the library, and each
// child makes a virtual machine. That is what forking a process for each invocation can mean.
#include <jni.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *class_path, *class_name, *argument;
static JNIEnv *env;
static jclass program;
static jmethodID entry;
static jobjectArray arguments;

static void fail(const char *what) {
    if (env && (*env)->ExceptionCheck(env))
        (*env)->ExceptionDescribe(env);
    fprintf(stderr, "jvm: %s failed for %s in %s\n", what, class_name, class_path);
    exit(1);
}

// Makes the virtual machine of this process, and finds the program.
static void open_vm(int discards) {
    static char path[4096];
    JavaVM *vm;
    // Few threads, and no file of counters: what a short program needs.
    JavaVMOption options[] = {{path, 0}, {"-Xshare:auto", 0}, {"-XX:+UseSerialGC", 0},
                              {"-XX:-UsePerfData", 0}};
    JavaVMInitArgs with = {JNI_VERSION_1_8, 4, options, JNI_FALSE};

    snprintf(path, sizeof path, "-Djava.class.path=%s", class_path);
    if (JNI_CreateJavaVM(&vm, (void **)&env, &with) != JNI_OK)
        fail("JNI_CreateJavaVM");
    if (discards) {
        jclass sink = (*env)->FindClass(env, "Sink");
        jmethodID open = sink ? (*env)->GetStaticMethodID(env, sink, "open", "()V") : 0;
        if (!open)
            fail("Sink.open");
        (*env)->CallStaticVoidMethod(env, sink, open);
    }
    program = (*env)->FindClass(env, class_name);
    entry = program ? (*env)->GetStaticMethodID(env, program, "main", "([Ljava/lang/String;)V")
                    : 0;
    if (!entry)
        fail("main");
    arguments = (*env)->NewObjectArray(env, argument != 0,
                                       (*env)->FindClass(env, "java/lang/String"), 0);
    if (arguments && argument)
        (*env)->SetObjectArrayElement(env, arguments, 0, (*env)->NewStringUTF(env, argument));
    if ((*env)->ExceptionCheck(env))
        fail("the arguments");
}

static void run(void) {
    (*env)->CallStaticVoidMethod(env, program, entry, arguments);
    if ((*env)->ExceptionCheck(env))
        fail("the program");
}

static void run_in_child(void) {
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        open_vm(1);
        run();
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0)
        fail("the child");
}

static long long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

int main(int count, char **list) {
    char line[32];

    if (count < 4 || count > 5) {
        fprintf(stderr, "jvm: usage: jvm shared|fork|print CLASS_PATH CLASS [ARGUMENT]\n");
        return 2;
    }
    class_path = list[2];
    class_name = list[3];
    argument = count == 5 ? list[4] : 0;
    if (!strcmp(list[1], "print")) {
        open_vm(0);
        run();
        return 0;
    }
    int forks = !strcmp(list[1], "fork");
    if (!forks)
        open_vm(1);
    while (fgets(line, sizeof line, stdin)) {
        long runs = atol(line);
        long long start = now_ns();
        for (long i = 0; i < runs; i++)
            forks ? run_in_child() : run();
        printf("%lld\n", now_ns() - start);
        fflush(stdout);
    }
    return 0;
}
