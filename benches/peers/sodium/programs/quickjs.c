/* The QuickJS interpreter. It compiles script.js once and calls its function in each pass. */
#include "program.h"
#include "quickjs.h"
#include <stdio.h>
#include <stdlib.h>

static const char script[] = {
#include "script.js.inc"
    0,
};

static JSContext *context;
static JSValue function, result;

static JSValue checked(JSValue value)
{
    if (JS_IsException(value)) {
        fprintf(stderr, "quickjs: %s\n", JS_ToCString(context, JS_GetException(context)));
        abort();
    }
    return value;
}

void prepare(void)
{
    context = JS_NewContext(JS_NewRuntime());
    function = checked(JS_Eval(context, script, sizeof script - 1, "script.js", JS_EVAL_TYPE_GLOBAL));
    result = JS_UNDEFINED;
}

void pass(void)
{
    JS_FreeValue(context, result);
    result = checked(JS_Call(context, function, JS_UNDEFINED, 0, NULL));
}

void tell(void)
{
    const char *text = JS_ToCString(context, result);
    printf("%s\n", text);
    JS_FreeCString(context, text);
}
