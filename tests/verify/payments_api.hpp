// A payments API in one process, right or broken in one chosen way: what `semel verify` has to tell apart.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace semel::test {

enum class Behaviour : std::uint8_t {
    good,
    good_and_busy,         ///< twins are told 409 while the first is at work
    no_dedup,              ///< keys are required, and then ignored
    read_then_write_race,  ///< looks a key up, and writes it down only after the effect
    key_without_tenant,    ///< one tenant's key is every tenant's
    rerun_after_500,       ///< forgets a key whose request failed, though its effect had happened
    empty_replay,          ///< remembers the status and no body
    loses_on_hang_up,      ///< writes the key down, then drops the work of a client that has gone
    loses_after_error,     ///< writes the answer down before the effect, which then fails
    forgets,               ///< answers 201 and does nothing
    leaks_cookie,          ///< remembers the first caller's Set-Cookie
    ignores_body,          ///< replays whatever the body is
    quoted_is_another,     ///< takes the quotes for a part of the key
    runs_without_key,
};

/// By its name as written above; nothing for any other.
std::optional<Behaviour> behaviour_of(std::string_view name);

/// POST /charges with Authorization and Idempotency-Key: 201 and one effect. `X-Fail: after` fails with 500 when the effect
/// has happened, `X-Fail: before` with 503 instead of it. GET /effects: {"charges": N}. On a free port of 127.0.0.1.
class PaymentsApi {
public:
    /// `effect` is called for each effect, one at a time.
    explicit PaymentsApi(
        Behaviour behaviour, std::function<void()> effect = [] {});
    ~PaymentsApi();
    PaymentsApi(const PaymentsApi&) = delete;
    PaymentsApi& operator=(const PaymentsApi&) = delete;

    [[nodiscard]] int port() const { return port_; }
    [[nodiscard]] std::string url(std::string_view path = "/charges") const;
    [[nodiscard]] std::int64_t effects() const { return effects_; }

private:
    struct Call {
        std::string method, path, key, tenant, fail, body;
        bool has_key = false;
        int socket = -1;
    };
    struct Reply {
        int status = 0;
        std::string body;
        std::string cookie = {};
        bool replayed = false;
    };
    struct Entry {
        std::string body;
        std::optional<Reply> reply;  // nothing: at work
    };

    void accept_all();
    void serve(int socket);
    Reply answer(const Call& call);
    Reply charge(const Call& call);
    Reply perform(const Call& call);
    Reply perform_and_keep(const Call& call, const std::string& name);
    Reply replay(const Call& call, const Entry& entry) const;
    void have_effect();
    void wait_for_twin(const std::string& name);

    Behaviour behaviour_;
    std::function<void()> effect_;
    int listener_ = -1;
    int port_ = 0;
    std::atomic<bool> stopping_ = false;
    std::atomic<std::int64_t> effects_ = 0;
    std::atomic<int> serial_ = 0;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::string, Entry> entries_;  // guarded by mutex_, as are the following
    std::map<std::string, int> looked_up_;  // how many came for an operation
    std::vector<std::thread> serving_;      // of the accepting thread
    std::thread accepting_;
};

}  // namespace semel::test
