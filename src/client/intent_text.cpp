#include "client/intent_text.hpp"

#include <array>
#include <charconv>
#include <limits>

#include "base/assert.hpp"
#include "base/bytes.hpp"
#include "base/json.hpp"
#include "ledger/json_document.hpp"
#include "semel/ledger.hpp"

namespace semel::client {
namespace {

using State = IntentRecord::State;

constexpr std::string_view magic = "semel intent 1 ";
constexpr std::size_t digest_characters = 64;
constexpr int status_least = 100;
constexpr int status_most = 999;
constexpr auto states = std::to_array<std::string_view>({"begun", "not-executed", "settled"});

// ---- writing -------------------------------------------------------------------------------------------------------

void write_answer(JsonWriter& json, const HttpAnswer& answer, bool replayed) {
    json.member("status", answer.status).member("replayed", replayed).member("whole", answer.whole);
    json.name("fields").begin_array();
    for (const HttpField& field : answer.fields) json.begin_array().value(field.name).value(field.value).end_array();
    json.end_array();
}

/// The body that follows the document.
std::string_view write_outcome(JsonWriter& json, const Outcome& outcome) {
    json.name("outcome").begin_object();
    std::string_view body;
    std::visit(match{[&](const Succeeded& end) {
                         json.member("end", "succeeded");
                         write_answer(json, end.answer, end.replayed);
                         body = end.answer.body;
                     },
                     [&](const NotRetained& end) { json.member("end", "not-retained").member("status", end.status); },
                     [&](const Refused& end) {
                         json.member("end", "refused").member("doubt", end.doubt);
                         write_answer(json, end.answer, end.replayed);
                         body = end.answer.body;
                     },
                     [](const OutcomeUnknown&) { SEMEL_ASSERT(false, "not a settled outcome"); },
                     [](const GaveUp&) { SEMEL_ASSERT(false, "not a settled outcome"); }},
               outcome);
    json.end_object();
    return body;
}

// ---- reading -------------------------------------------------------------------------------------------------------

/// An object of the document. Whatever is missing or of another kind makes it fail for good.
class Members {
public:
    Members(const JsonDocument& document, JsonDocument::Index at) : document_(&document), at_(at) {
        ok_ = document.node(at).kind == JsonDocument::Kind::object;
    }

    [[nodiscard]] bool ok() const { return ok_; }

    std::optional<JsonDocument::Index> find(std::string_view name) const {
        if (!ok_) return std::nullopt;
        for (const JsonDocument::Index each : document_->members(document_->node(at_)))
            if (document_->node(each).text == name) return each + 1;
        return std::nullopt;
    }

    bool is_null(std::string_view name) const {
        const auto at = find(name);
        return at && document_->node(*at).kind == JsonDocument::Kind::literal && document_->node(*at).text == "null";
    }

    std::string text(std::string_view name) {
        const auto* const node = of_kind(name, JsonDocument::Kind::string);
        return node == nullptr ? std::string() : std::string(node->text);
    }

    std::int64_t number(std::string_view name, std::int64_t least = 0,
                        std::int64_t most = std::numeric_limits<std::int64_t>::max()) {
        const auto* const node = of_kind(name, JsonDocument::Kind::number);
        std::int64_t read = 0;
        if (node == nullptr) return read;
        const char* const end = node->text.data() + node->text.size();
        const auto [rest, error] = std::from_chars(node->text.data(), end, read);
        if (error != std::errc{} || rest != end || read < least || read > most) ok_ = false;
        return read;
    }

    bool truth(std::string_view name) {
        const auto* const node = of_kind(name, JsonDocument::Kind::literal);
        if (node != nullptr && node->text != "true" && node->text != "false") ok_ = false;
        return node != nullptr && node->text == "true";
    }

    std::vector<HttpField> fields(std::string_view name) {
        std::vector<HttpField> read;
        const auto at = find(name);
        if (!at || document_->node(*at).kind != JsonDocument::Kind::array) {
            ok_ = false;
            return read;
        }
        const JsonDocument::Index end = document_->node(*at).end;
        for (JsonDocument::Index pair = *at + 1; pair < end; pair = document_->node(pair).end) {
            const auto& node = document_->node(pair);
            const bool right = node.kind == JsonDocument::Kind::array && node.count == 2 &&
                               document_->node(pair + 1).kind == JsonDocument::Kind::string &&
                               document_->node(pair + 2).kind == JsonDocument::Kind::string;
            if (!right) {
                ok_ = false;
                return read;
            }
            read.push_back({std::string(document_->node(pair + 1).text), std::string(document_->node(pair + 2).text)});
        }
        return read;
    }

private:
    const JsonDocument::Node* of_kind(std::string_view name, JsonDocument::Kind kind) {
        const auto at = find(name);
        if (at && document_->node(*at).kind == kind) return &document_->node(*at);
        ok_ = false;
        return nullptr;
    }

    const JsonDocument* document_;
    JsonDocument::Index at_;
    bool ok_ = true;
};

HttpAnswer read_answer(Members& in, std::string_view body) {
    HttpAnswer answer;
    answer.status = static_cast<int>(in.number("status", status_least, status_most));
    answer.fields = in.fields("fields");
    answer.whole = in.truth("whole");
    answer.body = body;
    return answer;
}

std::optional<Outcome> read_outcome(Members in, std::string_view body) {
    std::optional<Outcome> outcome;
    const std::string end = in.text("end");
    if (end == "succeeded") {
        HttpAnswer answer = read_answer(in, body);
        outcome = Succeeded{std::move(answer), in.truth("replayed")};
    } else if (end == "refused") {
        HttpAnswer answer = read_answer(in, body);
        outcome = Refused{std::move(answer), in.truth("replayed"), in.truth("doubt")};
    } else if (end == "not-retained") {
        NotRetained read;
        if (!in.is_null("status")) read.status = static_cast<int>(in.number("status", status_least, status_most));
        outcome = read;
    }
    if (!in.ok()) return std::nullopt;
    return outcome;
}

Failure corrupt(std::string why) { return {Code::corrupt, std::move(why)}; }

std::optional<State> state_of(std::string_view name) {
    for (std::size_t i = 0; i < states.size(); ++i)
        if (states[i] == name) return static_cast<State>(i);
    return std::nullopt;
}

}  // namespace

std::string to_text(const IntentRecord& record) {
    JsonWriter json;
    std::string_view body;
    json.begin_object()
        .member("state", states[static_cast<std::size_t>(record.state)])
        .member("key", record.key.text())
        .member("method", record.method)
        .member("url", record.url)
        .member("content_type", record.content_type)
        .member("body_sha256", record.body_sha256)
        .member("key_header", record.key_header)
        .member("bare_key", record.bare_key)
        .member("created", micros(record.created))
        .member("changed", micros(record.changed))
        .member("tries", record.tries);
    if (record.outcome) body = write_outcome(json, *record.outcome);
    json.end_object();
    const std::string content = json.text() + '\n' + std::string(body);
    return std::string(magic) + to_hex(sha256(content)) + '\n' + content;
}

Result<IntentRecord> intent_from_text(std::string_view text) {
    const std::size_t head = magic.size() + digest_characters + 1;
    if (text.empty()) return corrupt("it is empty");
    if (!text.starts_with(magic)) return corrupt("it is no intent, or one of another version");
    if (text.size() < head || text[head - 1] != '\n') return corrupt("it is cut short");
    const std::string_view content = text.substr(head);
    if (text.substr(magic.size(), digest_characters) != to_hex(sha256(content)))
        return corrupt("it is not as it was written (its checksum does not fit)");
    const std::size_t line = content.find('\n');
    if (line == std::string_view::npos) return corrupt("it is cut short");
    const auto document = JsonDocument::parse(content.substr(0, line));
    if (!document) return corrupt("its second line is no JSON");
    Members in(*document, 0);
    auto key = Key::parse(in.text("key"));
    const auto state = state_of(in.text("state"));
    if (!key || !state) return corrupt("its key or state cannot be read");
    IntentRecord record{.key = std::move(*key),
                        .method = in.text("method"),
                        .url = in.text("url"),
                        .content_type = in.text("content_type"),
                        .body_sha256 = in.text("body_sha256"),
                        .created = time_from_micros(in.number("created")),
                        .changed = time_from_micros(in.number("changed")),
                        .tries = static_cast<std::uint64_t>(in.number("tries")),
                        .state = *state};
    if (in.find("key_header")) record.key_header = in.text("key_header");
    if (in.find("bare_key")) record.bare_key = in.truth("bare_key");
    if (const auto at = in.find("outcome")) {
        record.outcome = read_outcome(Members(*document, *at), content.substr(line + 1));
        if (!record.outcome) return corrupt("its outcome cannot be read");
    }
    if (!in.ok()) return corrupt("a member of it is missing or of another kind");
    if (record.outcome.has_value() != (record.state == State::settled))
        return corrupt("its state and its outcome do not fit");
    return record;
}

}  // namespace semel::client
