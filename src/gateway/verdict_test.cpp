#include "gateway/verdict.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace semel::gateway {
namespace {

constexpr Verdict release{Verdict::What::release};
constexpr Verdict abandon{Verdict::What::abandon};
constexpr Verdict settle{Verdict::What::settle, true};
constexpr Verdict inconclusive{Verdict::What::settle, false};

Route plain_route() { return {}; }

Route webhook_route() {
    Route route;
    route.webhook = Webhook{.provider = "stripe", .id = *JsonPointer::parse("/id"), .type = {}, .signature = {}};
    return route;
}

/// The design's rule for a plain route without lists, written the other way round: by enumeration of what differs.
Verdict expected(int status, bool doubt) {
    for (const int each : {401, 425, 429})
        if (status == each) return release;
    if (status == 408 || status > 500) return abandon;
    if (!doubt || status / 100 == 2) return settle;
    return inconclusive;
}

TEST(Verdict, OfEveryStatusWithAndWithoutDoubt) {
    const Route route = plain_route();
    for (const bool doubt : {false, true})
        for (int status = 200; status <= 599; ++status)
            EXPECT_EQ(verdict(route, doubt, UpstreamEnd::answered(status)), expected(status, doubt))
                << status << (doubt ? " under doubt" : "");
}

TEST(Verdict, AWebhookSettlesWithSuccessAndIsReleasedOtherwise) {
    Route route = webhook_route();
    route.conclusive = {409};  // says nothing here: the provider's retry is the recovery
    for (const bool doubt : {false, true}) {
        for (int status = 200; status <= 599; ++status)
            EXPECT_EQ(verdict(route, doubt, UpstreamEnd::answered(status)), status < 300 ? settle : release) << status;
        EXPECT_EQ(verdict(route, doubt, UpstreamEnd::not_sent()), release);
        EXPECT_EQ(verdict(route, doubt, UpstreamEnd::timeout()), release);
        EXPECT_EQ(verdict(route, doubt, UpstreamEnd::broken()), release);
    }
}

TEST(Verdict, WithoutAnAnswerOnlyWhatWasNotSentIsReleased) {
    const Route route = plain_route();
    for (const bool doubt : {false, true}) {
        EXPECT_EQ(verdict(route, doubt, UpstreamEnd::not_sent()), release);
        EXPECT_EQ(verdict(route, doubt, UpstreamEnd::timeout()), abandon);
        EXPECT_EQ(verdict(route, doubt, UpstreamEnd::broken()), abandon);
    }
}

TEST(Verdict, AStatusOfReleaseOnIsReleasedWhateverItWouldBe) {
    Route route = plain_route();
    route.release_on = {408, 409, 503};
    route.conclusive = {409};
    for (const bool doubt : {false, true})
        for (int status = 200; status <= 599; ++status) {
            const bool listed = std::ranges::count(route.release_on, status) > 0;
            EXPECT_EQ(verdict(route, doubt, UpstreamEnd::answered(status)), listed ? release : expected(status, doubt))
                << status;
        }
}

TEST(Verdict, AConclusiveStatusSettlesUnderDoubtAndChangesNothingWithout) {
    Route route = plain_route();
    route.conclusive = {402, 409, 429, 503};
    for (int status = 200; status <= 599; ++status) {
        const bool listed = std::ranges::count(route.conclusive, status) > 0;
        EXPECT_EQ(verdict(route, false, UpstreamEnd::answered(status)), expected(status, false)) << status;
        EXPECT_EQ(verdict(route, true, UpstreamEnd::answered(status)), listed ? settle : expected(status, true))
            << status;
    }
}

}  // namespace
}  // namespace semel::gateway
