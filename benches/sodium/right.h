/* Included first where a test program is to print what it finds. Such a program writes its results to a
   file and reads them again beside libsodium's own; here both files are its output, at whose end it reads
   nothing twice, and the results are for us to compare. */
#include <stdio.h>
#define fopen(name, mode) stdout
