// Meshes by meshoptimizer (C++): orders triangles for caches, simplifies, and encodes. Floating point,
// and integers packed in bytes.
extern "C" {
#include "program.h"
}
#include "meshoptimizer.h"
#include <stdio.h>
#include <stdlib.h>

static const unsigned side = 40;
static const size_t vertices_count = side * side, indices_count = (side - 1) * (side - 1) * 6;
static float vertices[vertices_count][3];
static unsigned indices[indices_count], ordered[indices_count], simple[indices_count];
static unsigned char packed[1 << 16];
static size_t simple_count, packed_bytes[2];
static float error;

// The library is not linked with a C++ library.
void *operator new(size_t bytes) { return malloc(bytes); }
void operator delete(void *at) noexcept { free(at); }
void operator delete(void *at, size_t) noexcept { free(at); }

extern "C" void prepare(void)
{
    uint64_t state = 241;
    for (unsigned y = 0; y < side; y++) {
        for (unsigned x = 0; x < side; x++) {
            float *vertex = vertices[y * side + x];
            vertex[0] = x / 4.f;
            vertex[1] = y / 4.f;
            vertex[2] = ((x - 20.f) * (y - 20.f)) / 200.f + (next_number(&state) >> 24) / 2048.f;
        }
    }
    unsigned *to = indices;
    for (unsigned y = 0; y + 1 < side; y++) {
        for (unsigned x = 0; x + 1 < side; x++) {
            unsigned corner = y * side + x;
            const unsigned steps[] = { 0, 1, side, 1, side + 1, side };
            for (unsigned step : steps) {
                *to++ = corner + step;
            }
        }
    }
}

extern "C" void pass(void)
{
    meshopt_optimizeVertexCache(ordered, indices, indices_count, vertices_count);
    simple_count = meshopt_simplify(simple, ordered, indices_count, vertices[0], vertices_count, sizeof vertices[0],
        indices_count / 4, 0.05f, 0, &error);
    packed_bytes[0] = meshopt_encodeIndexBuffer(packed, sizeof packed, ordered, indices_count);
    meshopt_decodeIndexBuffer(ordered, indices_count, sizeof ordered[0], packed, packed_bytes[0]);
    packed_bytes[1] = meshopt_encodeVertexBuffer(packed, sizeof packed, vertices, vertices_count, sizeof vertices[0]);
    meshopt_decodeVertexBuffer(vertices, vertices_count, sizeof vertices[0], packed, packed_bytes[1]);
}

extern "C" void tell(void)
{
    printf("%zu indices of %zu, error %.6g, %zu and %zu bytes, %08x\n", simple_count, indices_count, error, packed_bytes[0],
        packed_bytes[1], fnv(0, ordered, sizeof ordered));
}
