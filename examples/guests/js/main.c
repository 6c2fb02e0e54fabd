// A JavaScript engine as a WASI reactor, in three steps, of which a snapshot can keep the first, or
// the first two:
//
//   wizer-initialize   makes the engine
//   load               evaluates the script on standard input, which defines a function `handle`
//   handle             calls it with the request's variables and body; prints what it returns
//
// An error in JavaScript goes to standard error, and ends the guest by a trap.
#include "quickjs.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wasi/libc-environ.h>

#define EXPORT(name) __attribute__((export_name(name)))

static JSContext *context;

// All of standard input, with a zero byte after it. Not by stdio, which remembers that the input of
// an earlier step ended.
static char *read_input(size_t *len) {
  size_t room = 4096;
  char *text = malloc(room);
  *len = 0;
  while (text) {
    ssize_t got = read(STDIN_FILENO, text + *len, room - *len - 1);
    if (got < 0) abort();
    *len += got;
    if (got == 0) {
      text[*len] = 0;
      break;
    }
    if (room - *len < 2) text = realloc(text, room *= 2);
  }
  if (!text) abort();
  return text;
}

// The value, unless it is an exception.
static JSValue checked(JSValue value) {
  if (JS_IsException(value)) {
    JSValue error = JS_GetException(context);
    const char *text = JS_ToCString(context, error);
    fprintf(stderr, "%s\n", text ? text : "an exception");
    abort();
  }
  return value;
}

EXPORT("wizer-initialize") void initialise(void) {
  JSRuntime *runtime = JS_NewRuntime();
  // The stack of WebAssembly has its own limit.
  JS_SetMaxStackSize(runtime, 0);
  context = JS_NewContext(runtime);
  if (!context) abort();
}

EXPORT("load") void load(void) {
  size_t len;
  char *script = read_input(&len);
  JS_FreeValue(context, checked(JS_Eval(context, script, len, "script", JS_EVAL_TYPE_GLOBAL)));
  free(script);
}

// Calls the global function `handle(variables, body)`.
EXPORT("handle") void handle(void) {
  size_t len;
  char *body = read_input(&len);
  JSValue variables = JS_NewObject(context);
  // The C library has copied the variables of an earlier step.
  __wasilibc_deinitialize_environ();
  for (char **variable = __wasilibc_get_environ(); *variable; variable++) {
    char *equals = strchr(*variable, '=');
    if (!equals) continue;
    JSAtom name = JS_NewAtomLen(context, *variable, equals - *variable);
    JS_SetProperty(context, variables, name, JS_NewString(context, equals + 1));
    JS_FreeAtom(context, name);
  }
  JSValue global = JS_GetGlobalObject(context);
  JSValue function = checked(JS_GetPropertyStr(context, global, "handle"));
  JSValue arguments[] = {variables, JS_NewStringLen(context, body, len)};
  JSValue answer = checked(JS_Call(context, function, global, 2, arguments));
  const char *text = JS_ToCStringLen(context, &len, answer);
  if (!text) checked(JS_EXCEPTION);
  fwrite(text, 1, len, stdout);
  fflush(stdout);
}
