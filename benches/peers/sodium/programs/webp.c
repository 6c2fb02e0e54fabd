/* WebP: encodes a picture with loss and without, and decodes both. */
#include "program.h"
#include "webp/decode.h"
#include "webp/encode.h"
#include <stdio.h>
#include <stdlib.h>

#define WIDTH 160
#define HEIGHT 120

static uint8_t picture[HEIGHT][WIDTH][3];
static size_t sizes[2];
static unsigned hash;
static unsigned turn;

/* Gradients, edges and noise. */
void prepare(void)
{
    uint64_t state = 201;
    for (int y = 0; y < HEIGHT; y++) {
        for (int x = 0; x < WIDTH; x++) {
            int inside = (x - 80) * (x - 80) + (y - 60) * (y - 60) < 1600;
            picture[y][x][0] = inside ? 200 - y : x + next_number(&state) % 8;
            picture[y][x][1] = inside ? x : 2 * y;
            picture[y][x][2] = (x / 20 + y / 20) % 2 ? 180 : 60 + next_number(&state) % 4;
        }
    }
}

static void decode(const uint8_t *data, size_t bytes)
{
    int width, height;
    uint8_t *pixels = WebPDecodeRGB(data, bytes, &width, &height);
    if (!pixels || width != WIDTH || height != HEIGHT) {
        fprintf(stderr, "the picture was not decoded\n");
        abort();
    }
    hash = fnv(hash, pixels, WIDTH * HEIGHT * 3);
    WebPFree(pixels);
}

void pass(void)
{
    uint8_t *data = NULL;
    sizes[0] = WebPEncodeRGB(picture[0][0], WIDTH, HEIGHT, WIDTH * 3, 75, &data);
    decode(data, sizes[0]);
    WebPFree(data);
    sizes[1] = WebPEncodeLosslessRGB(picture[0][0], WIDTH, HEIGHT, WIDTH * 3, &data);
    decode(data, sizes[1]);
    WebPFree(data);
    picture[turn++ % HEIGHT][7][0] += 9;
}

void tell(void)
{
    printf("%zu and %zu bytes, %08x\n", sizes[0], sizes[1], hash);
}
