// A name that code for x86 includes: immintrin.h has what there is, and no floating point.
#include "immintrin.h"
