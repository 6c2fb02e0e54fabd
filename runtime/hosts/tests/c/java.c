// A host that installs the runtime's handlers before it creates a Java virtual machine.
//
//     program CLASS_PATH LIBRARY
#include <jni.h>
#include <stdio.h>

void pirn_hosts_open(void);

int main(int count, char **arguments) {
    char classes[4096];
    JavaVM *vm;
    JNIEnv *env;
    JavaVMOption options[] = {{classes, 0}, {"-Xmx64m", 0}};
    JavaVMInitArgs with = {JNI_VERSION_1_8, 2, options, JNI_FALSE};

    if (count != 3)
        return 2;
    pirn_hosts_open();
    snprintf(classes, sizeof classes, "-Djava.class.path=%s", arguments[1]);
    if (JNI_CreateJavaVM(&vm, (void **)&env, &with) != JNI_OK)
        return 3;
    jclass hosts = (*env)->FindClass(env, "Hosts");
    jmethodID run = (*env)->GetStaticMethodID(env, hosts, "main", "([Ljava/lang/String;)V");
    jclass string = (*env)->FindClass(env, "java/lang/String");
    jstring library = (*env)->NewStringUTF(env, arguments[2]);
    jobjectArray list = (*env)->NewObjectArray(env, 1, string, library);
    (*env)->CallStaticVoidMethod(env, hosts, run, list);
    if ((*env)->ExceptionCheck(env)) {
        (*env)->ExceptionDescribe(env);
        return 1;
    }
    return (*vm)->DestroyJavaVM(vm) == JNI_OK ? 0 : 4;
}
