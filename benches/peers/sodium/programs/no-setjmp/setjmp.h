/* An empty setjmp.h for Lua, because WASI's C library has none. Lua is compiled with flags that
   make an error end the program, so it never calls setjmp. */
