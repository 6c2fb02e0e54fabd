/* Linked before everything else in a program whose code is put at other addresses. The code of this
   function, which nothing calls, moves all functions after it. Compilers cannot fold a pair of
   steps, and need about 10 bytes for it. */
#define PAIR(number) x = (x ^ (0x01234567u * (2 * number + 1))) + 0x0fedcba9u * (2 * number + 3);

__attribute__((used, noinline, visibility("default"))) unsigned move_functions(unsigned x)
{
#if PLACE > 0
    PAIR(1) PAIR(2)
#endif
#if PLACE > 1
    PAIR(3) PAIR(4)
#endif
#if PLACE > 2
    PAIR(5) PAIR(6)
#endif
    return x;
}
