// The name that code with CRC32 includes: arm_neon.h has it all.
#include "arm_neon.h"
