/* Elliptic curves by libsecp256k1: signs messages and verifies the signatures. */
#include "program.h"
#include "secp256k1.h"
#include "secp256k1_preallocated.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The crate that bundles the library prefixes the names. */
#define S(name) rustsecp256k1_v0_14_##name

static S(context) *context;
static unsigned char key[32], message[32];
static unsigned verified, rejected, hash;

/* The library calls them for errors of its user and of itself. */
void S(default_illegal_callback_fn)(const char *text, void *unused)
{
    fprintf(stderr, "secp256k1: %s\n", text);
    abort();
}

void S(default_error_callback_fn)(const char *text, void *unused)
{
    S(default_illegal_callback_fn)(text, unused);
}

void prepare(void)
{
    size_t bytes = S(context_preallocated_size)(SECP256K1_CONTEXT_NONE);
    context = S(context_preallocated_create)(malloc(bytes), SECP256K1_CONTEXT_NONE);
    memset(key, 0x5a, sizeof key);
}

void pass(void)
{
    S(pubkey) public;
    S(ecdsa_signature) signature;
    unsigned char compact[64];
    message[0]++;
    if (!S(ec_pubkey_create)(context, &public, key) || !S(ecdsa_sign)(context, &signature, message, key, NULL, NULL)) {
        fprintf(stderr, "the message was not signed\n");
        abort();
    }
    verified += S(ecdsa_verify)(context, &signature, message, &public);
    message[1]++;
    rejected += !S(ecdsa_verify)(context, &signature, message, &public);
    S(ecdsa_signature_serialize_compact)(context, compact, &signature);
    hash = fnv(hash, compact, sizeof compact);
}

void tell(void)
{
    printf("%u verified, %u rejected, %08x\n", verified, rejected, hash);
}
