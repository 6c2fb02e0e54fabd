/* Sorts records by three algorithms: quicksort of numbers, a stable merge of pairs by key, and
   a heap of strings. */
#include "program.h"
#include <stdio.h>
#include <string.h>

#define NUMBERS 20000
#define PAIRS 10000
#define STRINGS 4000

typedef struct {
    uint32_t key, number;
} pair;

static uint32_t numbers[NUMBERS];
static pair pairs[PAIRS], merged[PAIRS];
static char texts[STRINGS][24];
static const char *strings[STRINGS];
static uint64_t state = 41;

void prepare(void)
{
    uint64_t words = 42;
    for (int i = 0; i < STRINGS; i++) {
        snprintf(texts[i], sizeof texts[i], "%s %s", next_word(&words), next_word(&words));
    }
}

static void quicksort(uint32_t *low, uint32_t *high)
{
    while (high - low > 16) {
        uint32_t pivot = low[(high - low) / 2], *left = low, *right = high - 1;
        while (left <= right) {
            while (*left < pivot) {
                left++;
            }
            while (*right > pivot) {
                right--;
            }
            if (left <= right) {
                uint32_t kept = *left;
                *left++ = *right;
                *right-- = kept;
            }
        }
        quicksort(low, right + 1);
        low = left;
    }
    for (uint32_t *at = low + (low < high); at < high; at++) {
        uint32_t kept = *at, *to = at;
        for (; to > low && to[-1] > kept; to--) {
            *to = to[-1];
        }
        *to = kept;
    }
}

static void merge_sort(pair *all, pair *spare, int count)
{
    if (count < 2) {
        return;
    }
    int half = count / 2;
    merge_sort(all, spare, half);
    merge_sort(all + half, spare + half, count - half);
    for (int at = 0, left = 0, right = half; at < count; at++) {
        int takes_left = right == count || (left < half && all[left].key <= all[right].key);
        spare[at] = all[takes_left ? left++ : right++];
    }
    memcpy(all, spare, count * sizeof *all);
}

static void sink(const char **heap, int at, int count)
{
    const char *kept = heap[at];
    for (int child; (child = 2 * at + 1) < count; at = child) {
        child += child + 1 < count && strcmp(heap[child], heap[child + 1]) < 0;
        if (strcmp(kept, heap[child]) >= 0) {
            break;
        }
        heap[at] = heap[child];
    }
    heap[at] = kept;
}

static void heap_sort(const char **heap, int count)
{
    for (int at = count / 2; at-- > 0;) {
        sink(heap, at, count);
    }
    while (--count > 0) {
        const char *last = heap[count];
        heap[count] = heap[0];
        heap[0] = last;
        sink(heap, 0, count);
    }
}

void pass(void)
{
    for (int i = 0; i < NUMBERS; i++) {
        numbers[i] = next_number(&state);
    }
    for (int i = 0; i < PAIRS; i++) {
        pairs[i] = (pair) { next_number(&state) % 1000, i };
    }
    for (int i = 0; i < STRINGS; i++) {
        strings[i] = texts[next_number(&state) % STRINGS];
    }
    quicksort(numbers, numbers + NUMBERS);
    merge_sort(pairs, merged, PAIRS);
    heap_sort(strings, STRINGS);
}

void tell(void)
{
    uint32_t hash = fnv(fnv(0, numbers, sizeof numbers), pairs, sizeof pairs);
    for (int i = 0; i < STRINGS; i++) {
        hash = fnv(hash, strings[i], strlen(strings[i]));
    }
    printf("%08x\n", hash);
}
