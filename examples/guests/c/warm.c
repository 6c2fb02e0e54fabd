// A reactor that works before its first request: its constructor makes a table of prices, which
// _initialize calls. Each call of handle answers a request, whose body names an item.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ITEMS 1000

static unsigned *price_cents;
static unsigned requests;

__attribute__((constructor)) static void initialise(void) {
  price_cents = malloc(ITEMS * sizeof *price_cents);
  if (!price_cents) abort();
  for (unsigned i = 0; i < ITEMS; i++) price_cents[i] = 100 + i * i % 9973;
}

__attribute__((export_name("handle"))) int handle(void) {
  char item[100] = "";
  char cents[20] = "null";
  // Not by stdio, which would remember the end of another input.
  ssize_t len = read(STDIN_FILENO, item, sizeof item - 1);
  if (len < 0) return 1;
  item[len] = 0;
  unsigned number = ITEMS;
  sscanf(item, "item-%u", &number);
  if (number < ITEMS) snprintf(cents, sizeof cents, "%u", price_cents[number]);
  printf("Status: %d\nContent-Type: application/json\n\n", number < ITEMS ? 200 : 404);
  printf("{\"item\":\"%s\",\"cents\":%s,\"requests\":%u}\n", item, cents, ++requests);
  fflush(stdout);
  return 0;
}
