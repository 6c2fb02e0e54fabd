// Code for x86 includes this name. All definitions are in immintrin.h, which has no floating-point
// arithmetic.
#include "immintrin.h"
