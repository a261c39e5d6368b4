#include "my_reader.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>
#include <utility>

namespace my_reader {
namespace {

using u64 = std::uint64_t;

constexpr std::string_view MAGIC{"OAM\0", 4};
constexpr u64 HEADER_SIZE = 64, ROW_SIZE = 64, MAX_SECTIONS = 32, PAGE = 4096;
constexpr u64 CONFIG_SIZE = 108, INDEX_SIZE = 8, ENTRY_SIZE = 216, OPTIMIZER_SIZE = 68, PROGRESS_SIZE = 104;
constexpr u64 MAX_RANK = 8, BLOCK = 32, FLOAT = 4; // elements of a quantized block, bytes of an f32
constexpr u64 U64_MAX = std::numeric_limits<u64>::max();

enum : std::uint32_t { CONFIG = 1, WEIGHTS, STATE, OPTIMIZER, PROGRESS, LEGACY };

struct Dtype {
    std::string_view name;
    u64 size;
};

constexpr std::array<Dtype, 15> DTYPES{{{"f32", 4}, {"bf16", 2}, {"f16", 2}, {"i8", 1},   {"i32", 4},
                                        {"u8", 1},  {"f64", 8},  {"i16", 2}, {"i64", 8},  {"u16", 2},
                                        {"u32", 4}, {"u64", 8},  {"bool", 1}, {"c64", 8}, {"c128", 16}}};
constexpr std::array<std::string_view, 3> ENCODINGS{"dense", "q4", "q8"};
constexpr std::array<std::string_view, 4> KINDS{"SGD", "Adam", "AdamW", "Muon"};

void check(bool good, const char *message, u64 at)
{
    if (!good)
        throw ReadError(message, at);
}

bool is_utf8(std::string_view text)
{
    for (std::size_t at = 0; at < text.size();) {
        std::uint32_t lead = static_cast<unsigned char>(text[at++]);
        if (lead < 0x80)
            continue;
        if (lead < 0xc2 || lead > 0xf4)
            return false;
        int more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
        std::uint32_t code = lead & (0x3fu >> more);
        for (int i = 0; i < more; i++, at++) {
            if (at == text.size() || (text[at] & 0xc0) != 0x80)
                return false;
            code = code << 6 | (text[at] & 0x3fu);
        }
        bool overlong = (more == 2 && code < 0x800) || (more == 3 && code < 0x10000);
        if (overlong || (code >= 0xd800 && code <= 0xdfff) || code > 0x10ffff)
            return false;
    }
    return true;
}

// The bytes of a file or of one of its records. Nothing here looks beyond them: at() and substr() throw.
struct Bytes {
    std::string_view file;

    u64 integer(u64 at, int size) const
    {
        u64 value = 0;
        for (int i = size - 1; i >= 0; i--)
            value = value << 8 | static_cast<unsigned char>(file.at(at + i));
        return value;
    }
    std::uint8_t u8(u64 at) const { return static_cast<std::uint8_t>(integer(at, 1)); }
    std::uint32_t u32(u64 at) const { return static_cast<std::uint32_t>(integer(at, 4)); }
    u64 u64_(u64 at) const { return integer(at, 8); }
    std::int64_t i64(u64 at) const { return static_cast<std::int64_t>(integer(at, 8)); }
    Float32 f32(u64 at) const { return {u32(at)}; }

    std::string_view text(u64 at, u64 width) const
    {
        std::string_view field = file.substr(at, width);
        std::size_t end = field.find('\0');
        check(end != field.npos, "a text that is not terminated by a NUL within its field", at);
        check(is_utf8(field.substr(0, end)), "a text that is not UTF-8", at);
        return field.substr(0, end);
    }

    const Dtype &dtype(u64 at) const
    {
        check(u8(at) < DTYPES.size(), "an unknown dtype", at);
        return DTYPES[u8(at)];
    }
};

u64 fnv1a64(std::string_view bytes, u64 hash = 0xcbf29ce484222325u)
{
    for (char byte : bytes)
        hash = (hash ^ static_cast<unsigned char>(byte)) * 0x00000100000001b3u;
    return hash;
}

u64 product(u64 a, u64 b, u64 at)
{
    check(b == 0 || a <= U64_MAX / b, "a size that overflows", at);
    return a * b;
}

u64 ceil_div(u64 a, u64 b) { return a / b + (a % b != 0); }

// --- header and section table ---------------------------------------------------------------------------------------

struct Section {
    u64 begin, end;
    u64 size() const { return end - begin; }
};

using Sections = std::map<std::uint32_t, Section>; // by type

u64 check_header(const Bytes &b)
{
    const std::string_view file = b.file;
    check(file.size() >= HEADER_SIZE, "a file shorter than the header", 0);
    check(file.substr(0, MAGIC.size()) == MAGIC, "not an .oam file", 0);
    check(b.u32(4) >= 1 && b.u32(4) <= 3, "an unknown version", 4);
    check(b.u32(8) >= 1 && b.u32(8) <= MAX_SECTIONS, "a section count outside 1 to 32", 8);
    check(b.u64_(16) == file.size(), "a total size that is not the file's", 16);
    const u64 table_end = HEADER_SIZE + ROW_SIZE * b.u32(8);
    check(table_end <= file.size(), "a section table that passes the end of the file", 8);
    if (b.u32(4) > 1) { // the checksum is of the bytes around it, and counts as zero itself
        const u64 hash = fnv1a64(std::string_view("\0\0\0\0\0\0\0\0", 8), fnv1a64(file.substr(0, 24)));
        check(fnv1a64(file.substr(32, table_end - 32), hash) == b.u64_(24), "a wrong manifest checksum", 24);
    }
    return table_end;
}

Sections read_sections(const Bytes &b, u64 table_end)
{
    const u64 size = b.file.size(), data_start = ceil_div(table_end, PAGE) * PAGE;
    Sections sections;
    u64 combined = 0;
    for (u64 row = HEADER_SIZE; row < table_end; row += ROW_SIZE) {
        const std::uint32_t type = b.u32(row);
        const u64 begin = b.u64_(row + 12), length = b.u64_(row + 20), checksum = b.u64_(row + 36);
        check(type >= CONFIG && type <= LEGACY, "an unknown section type", row);
        check(sections.count(type) == 0, "a section type that occurs twice", row);
        check(b.u8(row + 4) == 0, "a compressed section", row + 4);
        check(b.u64_(row + 28) == 0, "a compressed size", row + 28);
        check(begin >= data_start, "a section within the header's pages", row + 12);
        check(begin <= size && length <= size - begin, "a section that passes the end of the file", row + 12);
        check(fnv1a64(b.file.substr(begin, length)) == checksum, "a wrong section checksum", row + 36);
        for (const auto &[_, other] : sections) // an empty one may be at another's first byte or end, but not inside
            check(begin >= other.end || other.begin >= begin + length, "overlapping sections", row + 12);
        sections[type] = {begin, begin + length};
        combined ^= checksum;
    }
    check(b.u32(4) > 1 || combined == b.u64_(24), "a checksum that is not the sections' combined", 24);
    check(sections.count(CONFIG) && sections.count(PROGRESS), "no config or no progress section", HEADER_SIZE);
    return sections;
}

// --- tensors --------------------------------------------------------------------------------------------------------

u64 expected_bytes(const Bytes &b, u64 entry, const Tensor &tensor, bool may_quantize)
{
    u64 elements = 1;
    for (u64 extent : tensor.shape) // from left to right: an overflow counts even if a later extent is zero
        elements = product(elements, extent, entry + 152);
    const std::uint8_t block = b.u8(entry + 147);
    if (tensor.encoding == "dense") {
        check(block == 0, "a dense tensor with a block size", entry + 147);
        return product(elements, b.dtype(entry + 144).size, entry + 152);
    }
    check(may_quantize, "a quantized tensor where there may be none", entry + 146);
    check(tensor.dtype == "f32", "a quantized tensor that is not f32", entry + 144);
    check(block == BLOCK, "a quantized tensor with a wrong block size", entry + 147);
    check(elements > 0, "a quantized tensor without elements", entry + 152);
    const u64 block_bytes = (tensor.encoding == "q4" ? BLOCK / 2 : BLOCK) + FLOAT;
    return product(ceil_div(elements, BLOCK), block_bytes, entry + 152);
}

Tensor read_tensor(const Bytes &b, u64 entry, std::string_view blob, bool may_quantize)
{
    Tensor tensor;
    tensor.name = b.text(entry, 128);
    check(!tensor.name.empty(), "a tensor without a name", entry);
    tensor.dtype = b.dtype(entry + 144).name;
    check(b.u8(entry + 145) <= MAX_RANK, "a rank above 8", entry + 145);
    check(b.u8(entry + 146) < ENCODINGS.size(), "an unknown encoding", entry + 146);
    tensor.encoding = ENCODINGS[b.u8(entry + 146)];
    check(b.u32(entry + 148) == 0, "reserved bytes that are not zero", entry + 148);
    for (u64 axis = 0; axis < b.u8(entry + 145); axis++)
        tensor.shape.push_back(b.u64_(entry + 152 + 8 * axis));
    const u64 offset = b.u64_(entry + 128), size = b.u64_(entry + 136);
    check(offset <= blob.size() && size <= blob.size() - offset, "a payload that passes the end of its section",
          entry + 128);
    check(size == expected_bytes(b, entry, tensor, may_quantize), "a byte count that does not fit the shape",
          entry + 136);
    tensor.data = blob.substr(offset, size);
    return tensor;
}

std::vector<Tensor> read_tensors(const Bytes &b, const Sections &sections, std::uint32_t type, bool may_quantize)
{
    if (sections.count(type) == 0)
        return {};
    const Section section = sections.at(type);
    check(section.size() >= INDEX_SIZE, "a section too short for a tensor index", section.begin);
    const u64 count = b.u32(section.begin), first = section.begin + INDEX_SIZE;
    check(b.u32(section.begin + 4) == 0, "reserved bytes that are not zero", section.begin + 4);
    check(count <= (section.size() - INDEX_SIZE) / ENTRY_SIZE, "a tensor index that passes the end of its section",
          section.begin);
    const u64 blob_begin = first + ENTRY_SIZE * count;
    const std::string_view blob = b.file.substr(blob_begin, section.end - blob_begin);

    std::vector<Tensor> tensors;
    std::set<std::string_view> names;
    std::vector<std::string_view> payloads;
    for (u64 entry = first; entry < blob_begin; entry += ENTRY_SIZE) {
        tensors.push_back(read_tensor(b, entry, blob, may_quantize));
        check(names.insert(tensors.back().name).second, "a tensor name that occurs twice", entry);
        if (!tensors.back().data.empty())
            payloads.push_back(tensors.back().data);
    }
    std::sort(payloads.begin(), payloads.end(), [](auto a, auto b) { return a.data() < b.data(); });
    for (std::size_t i = 1; i < payloads.size(); i++)
        check(payloads[i - 1].data() + payloads[i - 1].size() <= payloads[i].data(), "overlapping payloads", first);
    return tensors;
}

// --- the other sections ---------------------------------------------------------------------------------------------

Config read_config(const Bytes &b, Section section)
{
    const u64 at = section.begin;
    check(section.size() >= CONFIG_SIZE, "a config section that is too short", at);
    check(b.u32(at + 52) == section.size() - CONFIG_SIZE, "an arch_config size that does not fit the section", at + 52);
    return {b.text(at, 32), b.u32(at + 32), b.u32(at + 36), b.u32(at + 40), b.u32(at + 44), b.u32(at + 48),
            b.dtype(at + 56).name, b.dtype(at + 57).name, b.dtype(at + 58).name,
            b.file.substr(at + CONFIG_SIZE, b.u32(at + 52))};
}

std::optional<Optimizer> read_optimizer(const Bytes &b, const Sections &sections)
{
    if (sections.count(OPTIMIZER) == 0)
        return std::nullopt;
    const Section section = sections.at(OPTIMIZER);
    const u64 at = section.begin;
    check(section.size() >= OPTIMIZER_SIZE, "an optimizer section that is too short", at);
    const std::string_view kind = b.text(at, 16);
    check(std::count(KINDS.begin(), KINDS.end(), kind) == 1, "an unknown optimizer", at);
    const u64 moments = kind == "Muon" ? 1 : 2, count = b.u64_(at + 44), rest = section.size() - OPTIMIZER_SIZE;
    check(rest % (moments * FLOAT) == 0 && rest / (moments * FLOAT) == count,
          "a moment count that does not fit the section", at + 44);
    const std::string_view both = b.file.substr(at + OPTIMIZER_SIZE, rest);
    return Optimizer{kind, b.f32(at + 16), b.f32(at + 20), b.f32(at + 24), b.f32(at + 28), b.f32(at + 32),
                     b.i64(at + 36), both.substr(0, FLOAT * count), both.substr(FLOAT * count)};
}

Progress read_progress(const Bytes &b, Section section)
{
    const u64 at = section.begin;
    check(section.size() == PROGRESS_SIZE, "a progress section that is not 104 bytes long", at);
    return {b.u8(at), b.i64(at + 4), b.u64_(at + 12), b.u64_(at + 20), b.f32(at + 28), b.f32(at + 32),
            b.u8(at + 36) != 0, b.text(at + 40, 32)};
}

} // namespace

Model read(std::string_view file)
{
    const Bytes b{file};
    const Sections sections = read_sections(b, check_header(b));
    const std::uint32_t version = b.u32(4);
    return {version,
            read_config(b, sections.at(CONFIG)),
            read_tensors(b, sections, WEIGHTS, version == 3),
            read_tensors(b, sections, STATE, false),
            read_optimizer(b, sections),
            read_progress(b, sections.at(PROGRESS))};
}

} // namespace my_reader
