// A client that may be killed at any moment and run again: it repeats the same operation, never a second one.
//
//     auto client = client::Client::open({}).value();
//     auto journal = client::file_journal("/var/lib/shop/calls").value();
//     const auto report = client.call({.url = "https://api.example.com/v1/payments", .body = body}, "invoice-4711", *journal);
//
// The key is minted once per intent and durable, with what is to be sent, before the first try. Every try, of this run and of
// any later one, carries that key and the same bytes. It is for servers that honour the key: what may have been executed is
// sent again, and the server is who sees that it is the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <variant>

#include "semel/http.hpp"
#include "semel/operation.hpp"
#include "semel/result.hpp"
#include "semel/time.hpp"

namespace semel::client {

inline constexpr std::string_view key_header_default = "Idempotency-Key";

// ---- what is known at the end --------------------------------------------------------------------------------------

/// It was done: 2xx.
struct Succeeded {
    HttpAnswer answer{};
    bool replayed = false;  ///< the answer to an earlier request with this key
    bool operator==(const Succeeded&) const = default;
};

/// It was done before, and the server no longer has the answer.
struct NotRetained {
    std::optional<int> status{};  ///< that was answered then
    bool operator==(const NotRetained&) const = default;
};

/// A final answer that is no 2xx: to send the same again would change nothing. With `doubt`, or if the world can change it
/// (401, 403, 404, 407, redirects), the intent stays open: another run sends again, with the same key.
struct Refused {
    HttpAnswer answer{};
    bool replayed = false;
    bool doubt = false;  ///< an earlier try may have been executed nevertheless, and this answer does not say
    bool operator==(const Refused&) const = default;
};

/// The server itself does not know whether it was executed, and has to be asked again when somebody has resolved it.
struct OutcomeUnknown {
    HttpAnswer answer{};
    bool operator==(const OutcomeUnknown&) const = default;
};

/// Time or tries were used up, or it was asked to stop. To run the same intent again repeats the same operation.
struct GaveUp {
    /// False: surely no try was executed, of any run of this intent; with a key of the caller's, of this run.
    bool may_have_executed = false;
    std::string why{};   ///< "the budget of 10m is used up"
    std::string last{};  ///< what the last try came to; empty: there was none
    bool operator==(const GaveUp&) const = default;
};

using Outcome = std::variant<Succeeded, NotRetained, Refused, OutcomeUnknown, GaveUp>;

struct Report {
    Outcome outcome;
    Key key;
    std::uint32_t tries = 0;     ///< of this run
    bool recorded = false;       ///< from the journal: nothing was sent now
    std::string not_recorded{};  ///< why the journal could not take the outcome; a later run asks the server again
};

// ---- the journal ---------------------------------------------------------------------------------------------------

/// What is remembered of an intent.
struct IntentRecord {
    enum class State : std::uint8_t {
        begun,         ///< a try may have been executed
        not_executed,  ///< a run has ended, and surely none of its tries was executed
        settled,       ///< `outcome` is final
    };
    Key key;
    std::string method{};
    std::string url{};
    std::string content_type{};
    std::string body_sha256{};  ///< in hex
    std::string key_header{key_header_default};
    bool bare_key = false;
    TimePoint created{};  ///< by this machine's clock, as are all of the journal
    TimePoint changed{};
    std::uint64_t tries = 0;  ///< of all runs that ended by themselves
    State state = State::begun;
    std::optional<Outcome> outcome{};  ///< of settled: Succeeded, NotRetained or Refused
    bool operator==(const IntentRecord&) const = default;
};

/// One intent, held by one run at a time until this ends. Used by one thread.
class HeldIntent {
public:
    virtual ~HeldIntent() = default;
    /// As it was when it was taken hold of; nothing: it is new.
    [[nodiscard]] virtual const std::optional<IntentRecord>& record() const = 0;
    /// Durable when it returns. A failure leaves what was there before.
    virtual Status save(const IntentRecord& record) = 0;
};

/// Where intents are remembered. Thread safe.
class Journal {
public:
    virtual ~Journal() = default;
    /// `contended`: another run of this intent is under way. `corrupt`: what is there cannot be read, so that nobody knows the
    /// key that may have been used. `invalid`: no name for an intent.
    virtual Result<std::unique_ptr<HeldIntent>> hold(std::string_view intent) = 0;
    /// Whether there was something to forget; also what is corrupt. `contended` as above.
    virtual Result<bool> forget(std::string_view intent) = 0;
};

inline constexpr std::size_t intent_bytes_max = 200;

/// One file per intent in a folder, which is made if it is not there: readable by its owner only, held by flock(2), replaced
/// as a whole and synced with its folder. Any number of processes of this machine may share it. Names are 1–200 bytes, where
/// other characters than letters, digits and `-._` count as three.
Result<std::unique_ptr<Journal>> file_journal(std::string folder);

/// Forgets with the process: for tests.
std::unique_ptr<Journal> memory_journal();

// ---- the client ----------------------------------------------------------------------------------------------------

/// Of budget and timeout.
inline constexpr Duration patience_max = std::chrono::hours{366 * 24};

struct RetryRules {
    Duration budget = std::chrono::minutes{10};  ///< for all tries of a run, and the waits between them
    std::uint32_t tries_max = 100;               ///< of a run
    /// A random wait between zero and this before the second try; the limit doubles from try to try. Retry-After is a wait
    /// that is not cut short.
    Duration backoff_first = std::chrono::milliseconds{500};
    Duration backoff_max = std::chrono::seconds{30};
};

struct Options {
    std::string key_header{key_header_default};
    bool bare_key = false;  ///< false: a Structured Field string, in quotes
    RetryRules retry{};
    Duration timeout = std::chrono::seconds{30};  ///< of one try, connecting included
    Duration connect_timeout = std::chrono::seconds{5};
    TlsFiles tls{};
    std::size_t answer_bytes_max = 16U << 20;  ///< of the answer's body; a longer one is cut
    bool store_body = true;                    ///< whether the journal keeps the answer's body
};

/// Used by one thread.
class Client {
public:
    /// `invalid` names the option that is wrong.
    static Result<Client> open(Options options);
    Client(Client&&) noexcept;
    Client& operator=(Client&&) noexcept;
    ~Client();

    /// Has the intent done once: by asking the journal, then the server. The request's headers may differ from run to run
    /// (credentials expire); method, URL, content type and body may not, nor how the key is written.
    ///
    /// A failure means that nothing was sent now: `invalid`, the request cannot be sent or is another one than this intent was
    /// begun with; `contended` and `corrupt` as Journal::hold says; others, the journal could not be written.
    Result<Report> call(const HttpRequest& request, std::string_view intent, Journal& journal,
                        const std::stop_token& stop = {});

    /// The same without a journal: the caller has made the key durable, or does without what that gives.
    Result<Report> call(const HttpRequest& request, const Key& key, const std::stop_token& stop = {});

private:
    class Engine;
    explicit Client(std::unique_ptr<Engine> engine);
    std::unique_ptr<Engine> engine_;
};

}  // namespace semel::client
