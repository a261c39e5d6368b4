/* my_reader: reads .oam model files, versions 1 to 3. */
#ifndef MY_READER_H
#define MY_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MY_MAX_RANK = 8 };

enum my_encoding { MY_DENSE, MY_Q4, MY_Q8 };

/* The values are the file's codes. */
enum my_dtype {
    MY_F32, MY_BF16, MY_F16, MY_I8, MY_I32, MY_U8, MY_F64, MY_I16,
    MY_I64, MY_U16, MY_U32, MY_U64, MY_BOOL, MY_C64, MY_C128,
    MY_DTYPE_COUNT
};

/* All pointers in a model but `items` point into the file's bytes: keep them as long as the model.
   Texts are UTF-8 and end with a NUL. Data is little-endian, as stored, and not aligned. */

struct my_config {
    const char *architecture;
    uint32_t config_version, flags, d_model, n_layers, d_vocab;
    uint8_t weight_dtype, state_dtype, compute_dtype;
    const uint8_t *arch_config;
    uint32_t arch_config_size; /* bytes */
};

struct my_tensor {
    const char *name;
    uint8_t dtype, encoding, rank;
    uint64_t shape[MY_MAX_RANK]; /* the first `rank` count */
    const uint8_t *data;
    uint64_t num_bytes;
};

struct my_tensors {
    struct my_tensor *items;
    size_t count;
};

struct my_optimizer {
    const char *kind; /* NULL: the file has no optimizer */
    float learning_rate, beta1, beta2, epsilon, weight_decay;
    int64_t step;
    uint64_t moment_count; /* f32 values in each moment */
    const uint8_t *first_moment, *second_moment; /* Muon's second moment is NULL */
};

struct my_progress {
    uint8_t phase;
    int64_t step;
    uint64_t bytes_seen, env_steps;
    float learning_rate, best_metric;
    bool lower_is_better;
    const char *metric_name;
};

struct my_model {
    uint32_t version;
    struct my_config config;
    struct my_tensors weights, state;
    struct my_optimizer optimizer;
    struct my_progress progress;
};

struct my_error {
    const char *message;
    uint64_t offset; /* the byte in the file that the message is about */
};

enum my_status { MY_OK, MY_BAD_FILE, MY_NO_MEMORY };

/* Reads the file that the `size` bytes at `data` are. MY_OK fills in `model`, to be freed with
   my_free(); MY_BAD_FILE fills in `error`; after anything but MY_OK there is nothing to free. */
enum my_status my_read(const uint8_t *data, size_t size, struct my_model *model, struct my_error *error);

void my_free(struct my_model *model);

#endif
