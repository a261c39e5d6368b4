// adapter: makes my_reader a decoder for `ckptspec conform`: prints a file's neutral document.
#include <cstdio>
#include <string>

#include "my_reader.hpp"

namespace {

enum { ACCEPTED = 0, REJECTED = 1, TROUBLE = 2 }; // exit status; trouble says nothing about the file

std::string hex(unsigned long long number, int digits)
{
    char text[32];
    std::snprintf(text, sizeof text, "%0*llx", digits, number);
    return text;
}

// A small JSON writer: json(value) is a value, field() a member of an object.
std::string json(std::uint32_t number) { return std::to_string(number); }
std::string json(std::uint64_t number) { return '"' + std::to_string(number) + '"'; } // 64-bit integers are strings
std::string json(std::int64_t number) { return '"' + std::to_string(number) + '"'; }
std::string json(bool value) { return value ? "true" : "false"; }
std::string json(my_reader::Float32 number) { return "\"0x" + hex(number.bits, 8) + '"'; }

std::string json(std::string_view text)
{
    std::string out = "\"";
    for (char c : text) {
        if (static_cast<unsigned char>(c) < 0x20)
            out += "\\u" + hex(static_cast<unsigned char>(c), 4);
        else
            (c == '"' || c == '\\' ? out += '\\' : out) += c;
    }
    return out + '"';
}

std::string blob(std::string_view bytes)
{
    static const char DIGITS[] = "0123456789abcdef";
    std::string out = "\"";
    for (char byte : bytes) {
        out += DIGITS[static_cast<unsigned char>(byte) >> 4];
        out += DIGITS[byte & 15];
    }
    return out + '"';
}

std::string json(const my_reader::Tensor &tensor);

template <class Items> std::string list(const Items &items)
{
    std::string out;
    for (const auto &item : items)
        out += (out.empty() ? "" : ",") + json(item);
    return '[' + out + ']';
}

std::string member(const char *key, const std::string &value) { return ",\"" + std::string(key) + "\":" + value; }
template <class Value> std::string field(const char *key, Value value) { return member(key, json(value)); }
std::string object(const std::string &members) { return '{' + members.substr(1) + '}'; } // without the first comma

std::string json(const my_reader::Tensor &t)
{
    return object(field("name", t.name) + field("dtype", t.dtype) + member("shape", list(t.shape)) +
                  field("encoding", t.encoding) + member("data", blob(t.data)));
}

std::string json(const my_reader::Config &c)
{
    return object(field("architecture", c.architecture) + field("config_version", c.config_version) +
                  field("flags", c.flags) + field("d_model", c.d_model) + field("n_layers", c.n_layers) +
                  field("d_vocab", c.d_vocab) + field("weight_dtype", c.weight_dtype) +
                  field("state_dtype", c.state_dtype) + field("compute_dtype", c.compute_dtype) +
                  member("arch_config", blob(c.arch_config)));
}

std::string json(const my_reader::Optimizer &o)
{
    return object(field("kind", o.kind) + field("learning_rate", o.learning_rate) + field("beta1", o.beta1) +
                  field("beta2", o.beta2) + field("epsilon", o.epsilon) + field("weight_decay", o.weight_decay) +
                  field("step", o.step) + member("first_moment", blob(o.first_moment)) +
                  member("second_moment", blob(o.second_moment)));
}

std::string json(const my_reader::Progress &p)
{
    return object(field("phase", std::uint32_t{p.phase}) + field("step", p.step) + field("bytes_seen", p.bytes_seen) +
                  field("env_steps", p.env_steps) + field("learning_rate", p.learning_rate) +
                  field("best_metric", p.best_metric) + field("lower_is_better", p.lower_is_better) +
                  field("metric_name", p.metric_name));
}

std::string document(const my_reader::Model &m)
{
    return object(field("format", std::string_view("oam")) + field("version", m.version) +
                  member("config", json(m.config)) + member("weights", list(m.weights)) +
                  member("state", list(m.state)) + member("optimizer", m.optimizer ? json(*m.optimizer) : "null") +
                  member("progress", json(m.progress)));
}

// Appends all that a file holds; returns whether it could be read to its end.
bool read_all(std::FILE *input, std::string &bytes)
{
    char block[65536];
    while (std::size_t count = std::fread(block, 1, sizeof block, input))
        bytes.append(block, count);
    return !std::ferror(input);
}

} // namespace

int main(int argc, char **argv) // an exception that nobody catches ends in abort(), which is a crash to the suite
{
    std::FILE *input = argc > 1 ? std::fopen(argv[1], "rb") : stdin;
    std::string file, answer;
    if (input == nullptr || !read_all(input, file)) {
        std::perror(argc > 1 ? argv[1] : "standard input");
        return TROUBLE;
    }
    int status = ACCEPTED;
    try {
        answer = document(my_reader::read(file));
    } catch (const my_reader::ReadError &error) {
        status = REJECTED;
        answer = object(member("error", object(field("message", std::string_view(error.what())) +
                                               member("offset", std::to_string(error.offset)))));
    }
    return std::puts(answer.c_str()) < 0 || std::fflush(stdout) != 0 ? TROUBLE : status;
}
