#include "cli/demo_api.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "cli/demo_client.hpp"

namespace semel::cli::demo {
namespace {

using std::chrono::milliseconds;

// The API answers its clients directly here: nothing stands between, and so nothing keeps it from charging twice.
class DemoApi : public testing::Test {
protected:
    std::optional<verify::Response> pay(const std::string& key, Fault fault = Fault::none,
                                        milliseconds patience = milliseconds{10'000}) {
        const auto response =
            client.pay({.key = key, .body = R"({"amount":5,"currency":"EUR"})", .fault = fault}, patience);
        EXPECT_TRUE(response) << response.failure().message;
        return response ? *response : std::nullopt;
    }
    std::unique_ptr<PaymentsApi> api = PaymentsApi::start().value();
    Client client{api->port()};
};

TEST_F(DemoApi, ChargesForEveryRequestWhateverItsKey) {
    const auto first = pay("k");
    const auto second = pay("\"k\"");
    ASSERT_TRUE(first && second);
    EXPECT_EQ(first->status, 201);
    EXPECT_EQ(first->body, "{\"id\":\"ch_000001\",\"amount\":5,\"currency\":\"EUR\"}\n");
    EXPECT_FALSE(same_answer(*first, *second));
    EXPECT_EQ(api->charges(), 2U);
    EXPECT_EQ(api->charges_of("k"), 2U);
    EXPECT_EQ(api->charges_of("other"), 0U);
}

TEST_F(DemoApi, RefusesWhatIsNoPaymentAndChargesNothing) {
    for (const char* body : {"", "{}", "{\"amount\":0,\"currency\":\"EUR\"}", "{\"amount\":\"5\",\"currency\":\"EUR\"}",
                             "{\"amount\":1.5,\"currency\":\"EUR\"}", "{\"amount\":5}", "[5]"}) {
        const auto response = client.pay({.key = "k", .body = body});
        ASSERT_TRUE(response && *response) << body;
        EXPECT_EQ((*response)->status, 400) << body;
    }
    EXPECT_EQ(api->charges(), 0U);
}

TEST_F(DemoApi, MisbehavesAsItIsTold) {
    EXPECT_EQ(pay("error", Fault::error)->status, 500);
    EXPECT_EQ(api->charges_of("error"), 1U);
    EXPECT_EQ(pay("busy", Fault::busy)->status, 503);
    EXPECT_EQ(api->charges_of("busy"), 0U);
    EXPECT_FALSE(pay("drop", Fault::drop));
    EXPECT_EQ(api->charges_of("drop"), 1U);
    EXPECT_FALSE(pay("slow", Fault::slow, milliseconds{20}));
    EXPECT_EQ(api->charges_of("slow"), 1U);
    api->slow_for(milliseconds{1});
    EXPECT_EQ(pay("not so slow", Fault::slow)->status, 201);
}

TEST_F(DemoApi, ACrashCutsEverybodyAndItComesBack) {
    std::optional<verify::Response> cut = verify::Response{};
    std::thread other([&] { cut = pay("cut", Fault::slow); });
    while (api->charges_of("cut") == 0) std::this_thread::yield();
    EXPECT_FALSE(pay("crash", Fault::crash));
    other.join();
    EXPECT_FALSE(cut);
    EXPECT_EQ(api->charges_of("crash"), 1U);
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds{10};
    bool back = false;
    while (!back && std::chrono::steady_clock::now() < until) {
        const auto again = client.pay({.key = "back", .body = R"({"amount":5,"currency":"EUR"})"});
        back = again && *again && (*again)->status == 201;
    }
    EXPECT_TRUE(back);
    EXPECT_EQ(api->charges(), 3U);
}

}  // namespace
}  // namespace semel::cli::demo
