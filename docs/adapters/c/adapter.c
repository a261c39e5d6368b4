/* adapter.c: makes my_reader a decoder for `ckptspec conform`: prints a file's neutral document. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "my_reader.h"

enum { ACCEPTED = 0, REJECTED = 1, TROUBLE = 2 }; /* exit status; trouble is no verdict on the file */

static const char *const DTYPES[] = {"f32", "bf16", "f16", "i8",  "i32",  "u8",  "f64", "i16",
                                     "i64", "u16",  "u32", "u64", "bool", "c64", "c128"};
static const char *const ENCODINGS[] = {"dense", "q4", "q8"};

static const char *comma = ""; /* what goes before the next value */

static void key(const char *name) { printf("%s\"%s\":", comma, name), comma = ","; }
static void begin(const char *bracket) { printf("%s", bracket), comma = ""; }
static void end(const char *bracket) { printf("%s", bracket), comma = ","; }

/* 64-bit integers are strings, for not every JSON parser has that many bits. */
static void u32(const char *name, uint32_t value) { key(name), printf("%lu", (unsigned long)value); }
static void u64(const char *name, uint64_t value) { key(name), printf("\"%llu\"", (unsigned long long)value); }
static void i64(const char *name, int64_t value) { key(name), printf("\"%lld\"", (long long)value); }

/* A float is its bits. It comes by address, as passing it by value may change a NaN. */
static void f32(const char *name, const float *value)
{
    uint32_t bits;
    memcpy(&bits, value, sizeof bits);
    key(name), printf("\"0x%08lx\"", (unsigned long)bits);
}

static void hex(const char *name, const uint8_t *bytes, uint64_t size)
{
    key(name), putchar('"');
    for (uint64_t i = 0; i < size; i++)
        printf("%02x", (unsigned)bytes[i]);
    putchar('"');
}

/* The reader has checked that texts are UTF-8; JSON takes it as it is but for quotes and control characters. */
static void text(const char *name, const char *value)
{
    key(name), putchar('"');
    for (const char *c = value; *c != 0; c++)
        printf((unsigned char)*c < 0x20 ? "\\u%04x" : *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
    putchar('"');
}

static void tensors(const char *name, const struct my_tensors *all)
{
    key(name), begin("[");
    for (const struct my_tensor *t = all->items; t < all->items + all->count; t++) {
        printf("%s", comma), begin("{");
        text("name", t->name), text("dtype", DTYPES[t->dtype]), text("encoding", ENCODINGS[t->encoding]);
        key("shape"), begin("[");
        for (int axis = 0; axis < t->rank; axis++)
            printf("%s\"%llu\"", axis ? "," : "", (unsigned long long)t->shape[axis]);
        end("]"), hex("data", t->data, t->num_bytes), end("}");
    }
    end("]");
}

static void config(const struct my_config *c)
{
    key("config"), begin("{"), text("architecture", c->architecture);
    u32("config_version", c->config_version), u32("flags", c->flags);
    u32("d_model", c->d_model), u32("n_layers", c->n_layers), u32("d_vocab", c->d_vocab);
    text("weight_dtype", DTYPES[c->weight_dtype]), text("state_dtype", DTYPES[c->state_dtype]);
    text("compute_dtype", DTYPES[c->compute_dtype]);
    hex("arch_config", c->arch_config, c->arch_config_size), end("}");
}
