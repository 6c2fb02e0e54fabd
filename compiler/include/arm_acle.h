// Code that uses CRC32 on Arm includes this name. All definitions are in arm_neon.h.
#include "arm_neon.h"
