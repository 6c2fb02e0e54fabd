/* In place of the C library's, which WASI has none of: Lua includes it, and the flags that it is compiled with
   say that its errors end the program. */
