/* my_reader: reads .oam model files, versions 1 to 3. See my_reader.h. */
#include "my_reader.h"

#include <stdlib.h>
#include <string.h>

enum {
    HEADER_SIZE = 64,
    ROW_SIZE = 64,     /* of the section table */
    MAX_SECTIONS = 32,
    PAGE = 4096,
    CONFIG_SIZE = 108, /* without arch_config */
    INDEX_SIZE = 8,    /* of a tensor index, without its entries */
    ENTRY_SIZE = 216,  /* of a tensor index */
    OPTIMIZER_SIZE = 68,
    PROGRESS_SIZE = 104,
    BLOCK = 32         /* elements of a quantized block */
};

enum { CONFIG = 1, WEIGHTS, STATE, OPTIMIZER, PROGRESS, LEGACY, TYPE_END };

static const uint8_t MAGIC[4] = {'O', 'A', 'M', 0};
static const uint64_t FNV_BASIS = 0xcbf29ce484222325u, FNV_PRIME = 0x00000100000001b3u;
static const uint8_t DTYPE_SIZES[MY_DTYPE_COUNT] = {4, 2, 2, 1, 4, 1, 8, 2, 8, 2, 4, 8, 1, 8, 16};

struct section {
    bool present;
    uint64_t row; /* where its row of the table is */
    uint64_t offset, size, checksum;
};

struct reader {
    const uint8_t *data;
    uint64_t size;
    struct my_model *model;
    struct my_error *error;
    bool no_memory;
    struct section sections[TYPE_END]; /* by type */
};

/* Every check ends in this if it fails. It returns false, so that a check can return what it does. */
static bool fail(struct reader *r, uint64_t offset, const char *message)
{
    *r->error = (struct my_error){message, offset};
    return false;
}

/* --- fields ------------------------------------------------------------------------------------------------------- */

static uint32_t get_u32(const struct reader *r, uint64_t at)
{
    const uint8_t *p = r->data + at;
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t get_u64(const struct reader *r, uint64_t at)
{
    return get_u32(r, at) | (uint64_t)get_u32(r, at + 4) << 32;
}

static int64_t get_i64(const struct reader *r, uint64_t at)
{
    uint64_t bits = get_u64(r, at);
    int64_t value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Stores a float bit by bit: as a value, a signalling NaN could lose its payload on the way. */
static void get_f32(const struct reader *r, uint64_t at, float *value)
{
    uint32_t bits = get_u32(r, at);
    memcpy(value, &bits, sizeof bits);
}

static bool is_utf8(const uint8_t *text)
{
    while (*text != 0) {
        uint8_t lead = *text++;
        if (lead < 0x80)
            continue;
        if (lead < 0xc2 || lead > 0xf4)
            return false;
        int more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
        uint32_t code = lead & (0x3fu >> more);
        for (int i = 0; i < more; i++) {
            if ((*text & 0xc0) != 0x80) /* the final NUL, too */
                return false;
            code = code << 6 | (*text++ & 0x3fu);
        }
        bool overlong = (more == 2 && code < 0x800) || (more == 3 && code < 0x10000);
        bool surrogate = code >= 0xd800 && code <= 0xdfff;
        if (overlong || surrogate || code > 0x10ffff)
            return false;
    }
    return true;
}

static bool get_text(struct reader *r, uint64_t at, size_t width, const char **text)
{
    if (memchr(r->data + at, 0, width) == NULL)
        return fail(r, at, "a text that is not terminated by a NUL within its field");
    if (!is_utf8(r->data + at))
        return fail(r, at, "a text that is not UTF-8");
    *text = (const char *)(r->data + at);
    return true;
}

static bool get_dtype(struct reader *r, uint64_t at, uint8_t *dtype)
{
    *dtype = r->data[at];
    return *dtype < MY_DTYPE_COUNT || fail(r, at, "an unknown dtype");
}

static bool multiply(uint64_t a, uint64_t b, uint64_t *product)
{
    if (b != 0 && a > UINT64_MAX / b)
        return false;
    *product = a * b;
    return true;
}

static uint64_t fnv1a64(uint64_t hash, const uint8_t *bytes, uint64_t size)
{
    for (uint64_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * FNV_PRIME;
    return hash;
}

/* --- header and section table ------------------------------------------------------------------------------------- */

static bool check_header(struct reader *r)
{
    if (r->size < HEADER_SIZE)
        return fail(r, 0, "a file shorter than the header");
    if (memcmp(r->data, MAGIC, sizeof MAGIC) != 0)
        return fail(r, 0, "not an .oam file");
    uint32_t version = get_u32(r, 4), count = get_u32(r, 8);
    if (version < 1 || version > 3)
        return fail(r, 4, "an unknown version");
    if (count < 1 || count > MAX_SECTIONS)
        return fail(r, 8, "a section count outside 1 to 32");
    if (get_u64(r, 16) != r->size)
        return fail(r, 16, "a total size that is not the file's");
    if (HEADER_SIZE + (uint64_t)ROW_SIZE * count > r->size)
        return fail(r, 8, "a section table that passes the end of the file");
    r->model->version = version;
    if (version == 1)
        return true; /* its checksum is one of the sections' checksums */

    static const uint8_t zeros[8];
    uint64_t hash = fnv1a64(FNV_BASIS, r->data, 24); /* up to the checksum itself, which counts as zero */
    hash = fnv1a64(hash, zeros, sizeof zeros);
    hash = fnv1a64(hash, r->data + 32, HEADER_SIZE - 32 + (uint64_t)ROW_SIZE * count);
    return hash == get_u64(r, 24) || fail(r, 24, "a wrong manifest checksum");
}

static bool read_row(struct reader *r, uint64_t row, uint64_t data_start)
{
    uint32_t type = get_u32(r, row);
    if (type < CONFIG || type >= TYPE_END)
        return fail(r, row, "an unknown section type");
    struct section *s = &r->sections[type];
    if (s->present)
        return fail(r, row, "a section type that occurs twice");
    *s = (struct section){true, row, get_u64(r, row + 12), get_u64(r, row + 20), get_u64(r, row + 36)};
    if (r->data[row + 4] != 0)
        return fail(r, row + 4, "a compressed section");
    if (get_u64(r, row + 28) != 0)
        return fail(r, row + 28, "a compressed size");
    if (s->offset < data_start)
        return fail(r, row + 12, "a section within the header's pages");
    if (s->offset > r->size || s->size > r->size - s->offset)
        return fail(r, row + 12, "a section that passes the end of the file");
    if (fnv1a64(FNV_BASIS, r->data + s->offset, s->size) != s->checksum)
        return fail(r, row + 36, "a wrong section checksum");
    return true;
}

static bool check_sections_apart(struct reader *r)
{
    for (int i = CONFIG; i < TYPE_END; i++) {
        for (int j = i + 1; j < TYPE_END; j++) {
            const struct section *a = &r->sections[i], *b = &r->sections[j];
            /* For an empty section this holds strictly inside another, and not at its first byte or its end. */
            if (a->present && b->present && a->offset < b->offset + b->size && b->offset < a->offset + a->size)
                return fail(r, b->row + 12, "overlapping sections");
        }
    }
    return true;
}

static bool read_sections(struct reader *r)
{
    uint64_t end = HEADER_SIZE + (uint64_t)ROW_SIZE * get_u32(r, 8);
    uint64_t data_start = (end + PAGE - 1) / PAGE * PAGE;
    for (uint64_t row = HEADER_SIZE; row < end; row += ROW_SIZE) {
        if (!read_row(r, row, data_start))
            return false;
    }
    if (!check_sections_apart(r))
        return false;
    uint64_t combined = 0;
    for (int type = CONFIG; type < TYPE_END; type++)
        combined ^= r->sections[type].checksum;
    if (r->model->version == 1 && combined != get_u64(r, 24))
        return fail(r, 24, "a checksum that is not the sections' combined");
    if (!r->sections[CONFIG].present)
        return fail(r, HEADER_SIZE, "no config section");
    return r->sections[PROGRESS].present || fail(r, HEADER_SIZE, "no progress section");
}

/* --- tensors ------------------------------------------------------------------------------------------------------ */

/* Computes how many bytes the tensor at `entry` must have. */
static bool expect_bytes(struct reader *r, uint64_t entry, const struct my_tensor *t, bool may_quantize,
                         uint64_t *bytes)
{
    uint64_t elements = 1;
    uint8_t block_size = r->data[entry + 147];
    for (int axis = 0; axis < t->rank; axis++) {
        /* From left to right: an overflow counts even if a later extent is zero. */
        if (!multiply(elements, t->shape[axis], &elements))
            return fail(r, entry + 152, "an element count that overflows");
    }
    if (t->encoding == MY_DENSE) {
        if (block_size != 0)
            return fail(r, entry + 147, "a dense tensor with a block size");
        return multiply(elements, DTYPE_SIZES[t->dtype], bytes) || fail(r, entry + 152, "a byte count that overflows");
    }
    if (!may_quantize)
        return fail(r, entry + 146, "a quantized tensor where there may be none");
    if (t->dtype != MY_F32)
        return fail(r, entry + 144, "a quantized tensor that is not f32");
    if (block_size != BLOCK)
        return fail(r, entry + 147, "a quantized tensor with a wrong block size");
    if (elements == 0)
        return fail(r, entry + 152, "a quantized tensor without elements");
    uint64_t blocks = elements / BLOCK + (elements % BLOCK != 0);
    uint64_t block_bytes = (t->encoding == MY_Q4 ? BLOCK / 2 : BLOCK) + sizeof(float);
    return multiply(blocks, block_bytes, bytes) || fail(r, entry + 152, "a byte count that overflows");
}

static bool read_entry(struct reader *r, uint64_t entry, uint64_t blob, uint64_t end, bool may_quantize,
                       struct my_tensor *t)
{
    uint64_t offset = get_u64(r, entry + 128), expected;
    if (!get_text(r, entry, 128, &t->name) || !get_dtype(r, entry + 144, &t->dtype))
        return false;
    if (t->name[0] == 0)
        return fail(r, entry, "a tensor without a name");
    t->num_bytes = get_u64(r, entry + 136);
    t->rank = r->data[entry + 145];
    t->encoding = r->data[entry + 146];
    if (t->rank > MY_MAX_RANK)
        return fail(r, entry + 145, "a rank above 8");
    if (t->encoding > MY_Q8)
        return fail(r, entry + 146, "an unknown encoding");
    if (get_u32(r, entry + 148) != 0)
        return fail(r, entry + 148, "reserved bytes that are not zero");
    for (int axis = 0; axis < t->rank; axis++)
        t->shape[axis] = get_u64(r, entry + 152 + 8 * (uint64_t)axis);
    if (offset > end - blob || t->num_bytes > end - blob - offset)
        return fail(r, entry + 128, "a payload that passes the end of its section");
    t->data = r->data + blob + offset;
    if (!expect_bytes(r, entry, t, may_quantize, &expected))
        return false;
    return t->num_bytes == expected || fail(r, entry + 136, "a byte count that does not fit the shape");
}

static int by_name(const void *left, const void *right)
{
    const struct my_tensor *const *a = left, *const *b = right;
    return strcmp((*a)->name, (*b)->name);
}

static int by_place(const void *left, const void *right)
{
    const struct my_tensor *const *a = left, *const *b = right;
    if ((*a)->data != (*b)->data)
        return (*a)->data < (*b)->data ? -1 : 1;
    return ((*a)->num_bytes > (*b)->num_bytes) - ((*a)->num_bytes < (*b)->num_bytes);
}

static uint64_t entry_of(const struct reader *r, const struct my_tensor *t)
{
    return (uint64_t)((const uint8_t *)t->name - r->data);
}

/* No name twice, no payloads that share a byte. `sorted` is space for as many pointers as there are tensors. */
static bool check_tensors_apart(struct reader *r, const struct my_tensors *tensors, const struct my_tensor **sorted)
{
    size_t filled = 0;
    for (size_t i = 0; i < tensors->count; i++)
        sorted[i] = &tensors->items[i];
    qsort(sorted, tensors->count, sizeof *sorted, by_name);
    for (size_t i = 1; i < tensors->count; i++) {
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            return fail(r, entry_of(r, sorted[i]), "a tensor name that occurs twice");
    }
    for (size_t i = 0; i < tensors->count; i++) {
        if (tensors->items[i].num_bytes > 0)
            sorted[filled++] = &tensors->items[i];
    }
    qsort(sorted, filled, sizeof *sorted, by_place);
    for (size_t i = 1; i < filled; i++) {
        if (sorted[i - 1]->data + sorted[i - 1]->num_bytes > sorted[i]->data)
            return fail(r, entry_of(r, sorted[i]) + 128, "overlapping payloads");
    }
    return true;
}

static bool read_tensors(struct reader *r, int type, struct my_tensors *tensors)
{
    const struct section *s = &r->sections[type];
    bool may_quantize = type == WEIGHTS && r->model->version == 3;
    if (!s->present)
        return true;
    if (s->size < INDEX_SIZE)
        return fail(r, s->offset, "a section too short for a tensor index");
    uint32_t count = get_u32(r, s->offset);
    if (get_u32(r, s->offset + 4) != 0)
        return fail(r, s->offset + 4, "reserved bytes that are not zero");
    if (count > (s->size - INDEX_SIZE) / ENTRY_SIZE)
        return fail(r, s->offset, "a tensor index that passes the end of its section");
    if (count == 0)
        return true;

    uint64_t first = s->offset + INDEX_SIZE, blob = first + (uint64_t)ENTRY_SIZE * count;
    const struct my_tensor **sorted = calloc(count, sizeof *sorted);
    tensors->items = calloc(count, sizeof *tensors->items);
    tensors->count = count;
    r->no_memory = sorted == NULL || tensors->items == NULL;
    bool good = !r->no_memory;
    for (size_t i = 0; good && i < count; i++)
        good = read_entry(r, first + ENTRY_SIZE * (uint64_t)i, blob, s->offset + s->size, may_quantize,
                          &tensors->items[i]);
    good = good && check_tensors_apart(r, tensors, sorted);
    free(sorted);
    return good;
}

/* --- the other sections ------------------------------------------------------------------------------------------- */

static bool read_config(struct reader *r, struct my_config *config)
{
    const struct section *s = &r->sections[CONFIG];
    uint64_t at = s->offset;
    if (s->size < CONFIG_SIZE)
        return fail(r, at, "a config section that is too short");
    config->config_version = get_u32(r, at + 32);
    config->flags = get_u32(r, at + 36);
    config->d_model = get_u32(r, at + 40);
    config->n_layers = get_u32(r, at + 44);
    config->d_vocab = get_u32(r, at + 48);
    config->arch_config_size = get_u32(r, at + 52);
    config->arch_config = r->data + at + CONFIG_SIZE;
    if (config->arch_config_size != s->size - CONFIG_SIZE)
        return fail(r, at + 52, "an arch_config size that does not fit the section");
    return get_text(r, at, 32, &config->architecture) && get_dtype(r, at + 56, &config->weight_dtype) &&
           get_dtype(r, at + 57, &config->state_dtype) && get_dtype(r, at + 58, &config->compute_dtype);
}

static bool read_optimizer(struct reader *r, struct my_optimizer *optimizer)
{
    const struct section *s = &r->sections[OPTIMIZER];
    uint64_t at = s->offset, moments_size = s->size - OPTIMIZER_SIZE;
    const char *kind;
    if (!s->present)
        return true;
    if (s->size < OPTIMIZER_SIZE)
        return fail(r, at, "an optimizer section that is too short");
    if (!get_text(r, at, 16, &kind))
        return false;
    bool muon = strcmp(kind, "Muon") == 0;
    if (!muon && strcmp(kind, "SGD") != 0 && strcmp(kind, "Adam") != 0 && strcmp(kind, "AdamW") != 0)
        return fail(r, at, "an unknown optimizer");
    uint64_t item_size = (muon ? 1 : 2) * sizeof(float);
    optimizer->moment_count = get_u64(r, at + 44);
    if (moments_size % item_size != 0 || moments_size / item_size != optimizer->moment_count)
        return fail(r, at + 44, "a moment count that does not fit the section");
    optimizer->kind = kind;
    get_f32(r, at + 16, &optimizer->learning_rate);
    get_f32(r, at + 20, &optimizer->beta1);
    get_f32(r, at + 24, &optimizer->beta2);
    get_f32(r, at + 28, &optimizer->epsilon);
    get_f32(r, at + 32, &optimizer->weight_decay);
    optimizer->step = get_i64(r, at + 36);
    optimizer->first_moment = r->data + at + OPTIMIZER_SIZE;
    if (!muon)
        optimizer->second_moment = optimizer->first_moment + sizeof(float) * optimizer->moment_count;
    return true;
}

static bool read_progress(struct reader *r, struct my_progress *progress)
{
    const struct section *s = &r->sections[PROGRESS];
    uint64_t at = s->offset;
    if (s->size != PROGRESS_SIZE)
        return fail(r, at, "a progress section that is not 104 bytes long");
    progress->phase = r->data[at];
    progress->step = get_i64(r, at + 4);
    progress->bytes_seen = get_u64(r, at + 12);
    progress->env_steps = get_u64(r, at + 20);
    get_f32(r, at + 28, &progress->learning_rate);
    get_f32(r, at + 32, &progress->best_metric);
    progress->lower_is_better = r->data[at + 36] != 0;
    return get_text(r, at + 40, 32, &progress->metric_name);
}

enum my_status my_read(const uint8_t *data, size_t size, struct my_model *model, struct my_error *error)
{
    struct reader r = {.data = data, .size = size, .model = model, .error = error};
    *model = (struct my_model){0};
    if (check_header(&r) && read_sections(&r) && read_config(&r, &model->config) &&
        read_tensors(&r, WEIGHTS, &model->weights) && read_tensors(&r, STATE, &model->state) &&
        read_optimizer(&r, &model->optimizer) && read_progress(&r, &model->progress))
        return MY_OK;
    my_free(model);
    return r.no_memory ? MY_NO_MEMORY : MY_BAD_FILE;
}

void my_free(struct my_model *model)
{
    free(model->weights.items);
    free(model->state.items);
    *model = (struct my_model){0};
}
