// my_reader: reads .oam model files, versions 1 to 3, strictly, with nothing but the standard library.
#ifndef MY_READER_HPP
#define MY_READER_HPP

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace my_reader {

// The bytes are not a file that this library reads: what is wrong, and at which byte.
struct ReadError : std::runtime_error {
    ReadError(const char *message, std::uint64_t at) : std::runtime_error(message), offset(at) {}
    std::uint64_t offset;
};

// A float as the file has it: its bits, for not every NaN survives in a float.
struct Float32 {
    std::uint32_t bits = 0;
};

// Views are of the file's bytes: keep these as long as the model. Texts are UTF-8; data is little-endian, as stored.

struct Config {
    std::string_view architecture;
    std::uint32_t config_version, flags, d_model, n_layers, d_vocab;
    std::string_view weight_dtype, state_dtype, compute_dtype;
    std::string_view arch_config;
};

struct Tensor {
    std::string_view name, dtype, encoding; // the encoding is dense, q4 or q8
    std::vector<std::uint64_t> shape;
    std::string_view data;
};

struct Optimizer {
    std::string_view kind;
    Float32 learning_rate, beta1, beta2, epsilon, weight_decay;
    std::int64_t step;
    std::string_view first_moment, second_moment; // Muon's second moment is empty
};

struct Progress {
    std::uint8_t phase;
    std::int64_t step;
    std::uint64_t bytes_seen, env_steps;
    Float32 learning_rate, best_metric;
    bool lower_is_better;
    std::string_view metric_name;
};

struct Model {
    std::uint32_t version;
    Config config;
    std::vector<Tensor> weights, state;
    std::optional<Optimizer> optimizer;
    Progress progress;
};

// Returns the model that the bytes of a file hold; throws ReadError if they hold none.
Model read(std::string_view file);

} // namespace my_reader

#endif
