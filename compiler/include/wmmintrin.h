// Code for x86 includes this name. All definitions are in immintrin.h.
#include "immintrin.h"
