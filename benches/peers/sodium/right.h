/* Included first in a libsodium test program that checks results. Such a program writes its results
   to a file and compares this file with libsodium's expected one. Here both files are stdout, where
   the program reads nothing. The bench compares the output. */
#include <stdio.h>
#define fopen(name, mode) stdout
