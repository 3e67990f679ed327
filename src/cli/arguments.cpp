#include "cli/arguments.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <memory>
#include <system_error>

#include "base/bytes.hpp"
#include "base/duration.hpp"
#include "base/quote.hpp"
#include "cli/exit_code.hpp"

namespace semel::cli {
namespace {

constexpr std::size_t correlation_bytes_max = 255;

template <class Number>
std::optional<Number> whole_number(std::string_view text) {
    Number number{};
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc{} || rest != end) return std::nullopt;
    return number;
}

std::string reason(int error) { return std::error_code(error, std::generic_category()).message(); }

struct CloseFile {
    void operator()(std::FILE* file) const {
        if (file != stdin) std::fclose(file);
    }
};

}  // namespace

Result<std::uint64_t> parse_count(std::string_view name, std::string_view text, std::uint64_t least,
                                  std::uint64_t most) {
    const auto count = whole_number<std::uint64_t>(text);
    if (count && *count >= least && *count <= most) return *count;
    return refused(fmt::format("{} {}: must be a whole number from {} to {}", name, in_quotes(text), least, most));
}

Result<std::int32_t> parse_status(std::string_view name, std::string_view text) {
    if (const auto status = whole_number<std::int32_t>(text)) return *status;
    return refused(
        fmt::format("{} {}: must be the outcome's status, a whole number such as 201", name, in_quotes(text)));
}

Result<Duration> parse_duration_of(std::string_view name, std::string_view text) {
    auto duration = parse_duration(text);
    if (!duration) return refused(fmt::format("{}: {}", name, duration.failure().message));
    return duration;
}

Result<State> parse_state(std::string_view text) {
    for (const State state : {State::running, State::unknown, State::settled})
        if (text == name(state)) return state;
    return refused(fmt::format("--state {}: must be running, unknown or settled", in_quotes(text)));
}

Result<KeyFormat> parse_format(std::string_view text) {
    if (text == "any") return KeyFormat::any;
    if (text == "uuid") return KeyFormat::uuid;
    if (text == "uuidv7") return KeyFormat::uuidv7;
    return refused(fmt::format("--format {}: must be any, uuid or uuidv7", in_quotes(text)));
}

std::string Named::text() const { return operation ? operation->text() : to_hex(id.bytes); }

Result<Named> parse_operation(const OperationWords& words) {
    if (!words.key) {
        Named named;
        const auto bytes = from_hex(words.first);
        if (!bytes || bytes->size() != named.id.bytes.size())
            return refused(
                fmt::format("operation {}: name it by scope and key, as in `acme/payments 8e03978e`, or by its id, 32 "
                            "hex digits",
                            in_quotes(words.first)));
        std::ranges::copy(*bytes, named.id.bytes.begin());
        return named;
    }
    auto scope = Scope::parse(words.first);
    if (!scope) return scope.failure();
    auto key = Key::parse(*words.key);
    if (!key) return key.failure();
    Operation operation{std::move(*scope), std::move(*key)};
    return Named{operation.id(), std::move(operation)};
}

Result<Filter> parse_filter(const FilterWords& words) {
    Filter filter;
    if (words.scope) {
        auto scope = Scope::parse(*words.scope);
        if (!scope) return scope.failure();
        filter.scope_name = scope->name();
        if (words.scope->find('/') != std::string::npos) filter.tenant = scope->tenant();
        if (words.scope->find('#') != std::string::npos) filter.generation = scope->generation();
    }
    if (words.tenant) {
        // A scope's tenant is checked by making a scope of it.
        if (auto scope = Scope::make(*words.tenant, "any"); !scope) return scope.failure();
        if (filter.tenant && *filter.tenant != *words.tenant)
            return refused(fmt::format("--tenant {}: --scope {} names another tenant", in_quotes(*words.tenant),
                                       in_quotes(*words.scope)));
        filter.tenant = *words.tenant;
    }
    if (words.state) {
        auto state = parse_state(*words.state);
        if (!state) return state.failure();
        filter.state = *state;
    }
    if (words.older_than) {
        auto age = parse_duration_of("--older-than", *words.older_than);
        if (!age) return age.failure();
        filter.older_than = *age;
    }
    if (words.newer_than) {
        auto age = parse_duration_of("--newer-than", *words.newer_than);
        if (!age) return age.failure();
        filter.newer_than = *age;
    }
    if (words.correlation) {
        const auto printable = [](char c) { return c >= 0x20 && c <= 0x7e; };
        if (words.correlation->empty() || words.correlation->size() > correlation_bytes_max ||
            !std::ranges::all_of(*words.correlation, printable))
            return refused(fmt::format("--correlation {}: must be 1 to 255 printable ASCII characters",
                                       in_quotes(*words.correlation)));
        filter.correlation = *words.correlation;
    }
    return filter;
}

Result<std::string> parse_cursor(const std::string& text) {
    const auto bytes = from_hex(text);
    if (bytes && bytes->size() == sizeof(OperationId)) return text;
    return refused(
        fmt::format("--cursor {}: must be what an earlier page gave as `next`, 32 hex digits", in_quotes(text)));
}

Result<std::string> read_file(const std::string& path, std::size_t bytes_max) {
    const auto unreadable = [&](int error) {
        return refused(fmt::format("file {}: {}; name a file that can be read, or - for standard input",
                                   in_quotes(path), reason(error)));
    };
    struct stat about {};
    if (path != "-" && stat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode)) return unreadable(EISDIR);
    const std::unique_ptr<std::FILE, CloseFile> file(path == "-" ? stdin : std::fopen(path.c_str(), "rbe"));
    if (!file) return unreadable(errno);
    std::string bytes;
    char block[65536];
    while (const std::size_t got = std::fread(block, 1, sizeof block, file.get())) {
        if (bytes.size() + got > bytes_max)
            return refused(
                fmt::format("file {}: longer than {} bytes, the most that is read", in_quotes(path), bytes_max));
        bytes.append(block, got);
    }
    if (std::ferror(file.get()) != 0) return unreadable(errno);
    return bytes;
}

}  // namespace semel::cli
