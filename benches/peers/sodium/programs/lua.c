/* The Lua interpreter. It compiles script.lua once and runs the script in each pass. */
#include "program.h"
#include "lua.h"
#include "lauxlib.h"
#include "lualib.h"
#include <stdio.h>
#include <stdlib.h>

static const char script[] = {
#include "script.lua.inc"
};

static lua_State *lua;

static int panic(lua_State *lua)
{
    fprintf(stderr, "lua: %s\n", lua_tostring(lua, -1));
    return 0;
}

/* The Lua stack keeps the script's function at index 1 and the last pass's result at index 2. */
void prepare(void)
{
    lua = luaL_newstate();
    lua_atpanic(lua, panic);
    luaL_requiref(lua, LUA_GNAME, luaopen_base, 1);
    luaL_requiref(lua, LUA_TABLIBNAME, luaopen_table, 1);
    luaL_requiref(lua, LUA_STRLIBNAME, luaopen_string, 1);
    lua_settop(lua, 0);
    luaL_loadbuffer(lua, script, sizeof script, "script.lua");
    lua_call(lua, 0, 1);
}

void pass(void)
{
    lua_settop(lua, 1);
    lua_pushvalue(lua, 1);
    lua_call(lua, 0, 1);
}

void tell(void)
{
    printf("%s\n", lua_tostring(lua, 2));
}
