// A name that code for x86 includes: immintrin.h has it all.
#include "immintrin.h"
