/* adapter.c: makes my_reader a decoder for `ckptspec conform`: prints a file's neutral document. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "my_reader.h"

enum { ACCEPTED = 0, REJECTED = 1, TROUBLE = 2 }; /* exit status; trouble says nothing about the file */

static const char *const DTYPES[] = {"f32", "bf16", "f16", "i8",  "i32",  "u8",  "f64", "i16",
                                     "i64", "u16",  "u32", "u64", "bool", "c64", "c128"};
static const char *const ENCODINGS[] = {"dense", "q4", "q8"};

/* A small JSON writer. The key is empty for what is no member of an object. */
static const char *comma = "";
static void put(const char *key) { printf(*key ? "%s\"%s\":" : "%s%s", comma, key); comma = ","; }
static void begin(const char *key, char bracket) { put(key); putchar(bracket); comma = ""; }
static void end(char bracket) { putchar(bracket); comma = ","; }
static void u32(const char *key, uint32_t value) { put(key); printf("%lu", (unsigned long)value); }
static void u64(const char *key, uint64_t value) { put(key); printf("\"%llu\"", (unsigned long long)value); }
static void i64(const char *key, int64_t value) { put(key); printf("\"%lld\"", (long long)value); }

static void f32(const char *key, const float *value) /* bit by bit: a NaN may change if it is passed by value */
{
    uint32_t bits;
    memcpy(&bits, value, sizeof bits);
    put(key);
    printf("\"0x%08lx\"", (unsigned long)bits);
}

static void hex(const char *key, const uint8_t *bytes, uint64_t size)
{
    begin(key, '"');
    for (uint64_t i = 0; i < size; i++)
        printf("%02x", (unsigned)bytes[i]);
    end('"');
}

static void text(const char *key, const char *utf8)
{
    begin(key, '"');
    for (const char *c = utf8; *c != 0; c++)
        printf((unsigned char)*c < 0x20 ? "\\u%04x" : *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
    end('"');
}

static void tensors(const char *key, const struct my_tensors *section)
{
    begin(key, '[');
    for (size_t i = 0; i < section->count; i++) {
        const struct my_tensor *t = &section->items[i];
        begin("", '{'); text("name", t->name); text("dtype", DTYPES[t->dtype]); begin("shape", '[');
        for (int axis = 0; axis < t->rank; axis++)
            u64("", t->shape[axis]);
        end(']'); text("encoding", ENCODINGS[t->encoding]); hex("data", t->data, t->num_bytes); end('}');
    }
    end(']');
}

static void document(const struct my_model *model)
{
    const struct my_config *c = &model->config;
    const struct my_optimizer *o = &model->optimizer;
    const struct my_progress *p = &model->progress;
    text("format", "oam"); u32("version", model->version);

    begin("config", '{'); text("architecture", c->architecture); u32("config_version", c->config_version);
    u32("flags", c->flags); u32("d_model", c->d_model); u32("n_layers", c->n_layers); u32("d_vocab", c->d_vocab);
    text("weight_dtype", DTYPES[c->weight_dtype]); text("state_dtype", DTYPES[c->state_dtype]);
    text("compute_dtype", DTYPES[c->compute_dtype]); hex("arch_config", c->arch_config, c->arch_config_size); end('}');

    tensors("weights", &model->weights); tensors("state", &model->state);

    if (o->kind == NULL) {
        put("optimizer"); printf("null");
    } else {
        begin("optimizer", '{'); text("kind", o->kind); f32("learning_rate", &o->learning_rate);
        f32("beta1", &o->beta1); f32("beta2", &o->beta2); f32("epsilon", &o->epsilon);
        f32("weight_decay", &o->weight_decay); i64("step", o->step);
        hex("first_moment", o->first_moment, 4 * o->moment_count);
        hex("second_moment", o->second_moment, o->second_moment ? 4 * o->moment_count : 0); end('}');
    }
    begin("progress", '{'); u32("phase", p->phase); i64("step", p->step); u64("bytes_seen", p->bytes_seen);
    u64("env_steps", p->env_steps); f32("learning_rate", &p->learning_rate); f32("best_metric", &p->best_metric);
    put("lower_is_better"); printf(p->lower_is_better ? "true" : "false"); text("metric_name", p->metric_name);
    end('}');
}

static uint8_t *read_all(FILE *file, size_t *size) /* NULL: it cannot be read, or there is no memory */
{
    uint8_t *bytes = NULL, *larger;
    for (size_t room = 65536; (larger = realloc(bytes, room)) != NULL; room *= 2) {
        bytes = larger;
        *size += fread(bytes + *size, 1, room - *size, file);
        if (ferror(file))
            break;
        if (feof(file))
            return bytes;
    }
    free(bytes);
    return NULL;
}

int main(int argc, char **argv)
{
    FILE *file = argc > 1 ? fopen(argv[1], "rb") : stdin;
    size_t size = 0;
    uint8_t *bytes = file ? read_all(file, &size) : NULL;
    if (bytes == NULL) {
        perror(argc > 1 ? argv[1] : "standard input");
        return TROUBLE;
    }
    struct my_model model;
    struct my_error error;
    enum my_status status = my_read(bytes, size, &model, &error);
    begin("", '{');
    if (status == MY_OK) {
        document(&model);
        my_free(&model);
    } else if (status == MY_BAD_FILE) {
        begin("error", '{'); text("message", error.message);
        put("offset"); printf("%llu", (unsigned long long)error.offset); end('}');
    }
    end('}'); putchar('\n');
    free(bytes);
    if (status == MY_NO_MEMORY || fflush(stdout) != 0 || ferror(stdout))
        return TROUBLE;
    return status == MY_OK ? ACCEPTED : REJECTED;
}
