#include "gateway/signature.hpp"

#include <gtest/gtest.h>

namespace semel::gateway {
namespace {

using namespace std::chrono_literals;

http::Fields fields_of(std::initializer_list<http::Field> all) {
    http::Fields fields;
    for (const http::Field& each : all) fields.add(each);
    return fields;
}

TimePoint at(std::int64_t seconds) { return TimePoint{std::chrono::seconds{seconds}}; }

std::string fault_of(const Signature& signature, std::initializer_list<http::Field> fields, std::string_view body,
                     TimePoint now) {
    return std::string(SignatureChecker(signature).fault(fields_of(fields), body, now).value_or("fine"));
}

// ---- Stripe: printf '1492774577.%s' "$body" | openssl dgst -sha256 -hmac whsec_test_secret -----------------------

constexpr std::string_view event = R"({"id":"evt_1","object":"event"})";
constexpr std::string_view by_test = "v1=654b43d3508ecadb3f8cefc4bc7d3d2bdc5ba9e03bf2c89b2d0657a8e24e4543";
constexpr std::string_view by_old = "v1=6ff3bb574686a5e06ed372dd22beab15e045c7d15c6c1b70f8ccbf8d3f230fe8";
constexpr std::string_view v0 = "v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39";

Signature stripe(std::vector<std::string> secrets = {"whsec_test_secret"}) {
    Signature signature;
    signature.scheme = Signature::Scheme::stripe;
    signature.secrets = std::move(secrets);
    return signature;
}

std::string stripe_fault(const std::string& header, std::int64_t now = 1492774577, std::string_view body = event) {
    return fault_of(stripe(), {{"stripe-signature", header}}, body, at(now));
}

TEST(StripeSignature, IsAnyOfItsV1) {
    const std::string t = "t=1492774577,";
    EXPECT_EQ(stripe_fault(t + std::string(by_test)), "fine");
    EXPECT_EQ(stripe_fault(t + std::string(by_test) + "," + std::string(v0)), "fine");
    EXPECT_EQ(stripe_fault(t + std::string(by_old) + "," + std::string(by_test)), "fine");
    EXPECT_EQ(stripe_fault(std::string(by_test) + ", t=1492774577, v9=?"), "fine");
    EXPECT_EQ(stripe_fault(t + "v1=?," + std::string(by_test)), "fine");
    EXPECT_EQ(stripe_fault(t + std::string(by_old)), "the signature is wrong");
    EXPECT_EQ(stripe_fault(t + std::string(v0)), "the signature is not in the provider's form");
    EXPECT_EQ(stripe_fault(t + "v0=" + std::string(by_test.substr(3))), "the signature is not in the provider's form");
}

TEST(StripeSignature, AnyOfTheSecretsWillDo) {
    const std::string header = "t=1492774577," + std::string(by_old);
    const http::Field field{"Stripe-Signature", header};
    EXPECT_EQ(fault_of(stripe({"whsec_test_secret", "whsec_old_secret"}), {field}, event, at(1492774577)), "fine");
    EXPECT_EQ(fault_of(stripe({}), {field}, event, at(1492774577)), "the signature is wrong");
}

TEST(StripeSignature, IsOverTimeAndBodyByteForByte) {
    EXPECT_EQ(stripe_fault("t=1492774578," + std::string(by_test)), "the signature is wrong");
    EXPECT_EQ(stripe_fault(std::string(by_test)), "the signature is wrong");
    EXPECT_EQ(stripe_fault("t=1492774577," + std::string(by_test), 1492774577, std::string(event) + "\n"),
              "the signature is wrong");
}

TEST(StripeSignature, IsBelievedWithinTheTolerance) {
    const std::string header = "t=1492774577," + std::string(by_test);
    EXPECT_EQ(stripe_fault(header, 1492774577 + 300), "fine");
    EXPECT_EQ(stripe_fault(header, 1492774577 - 300), "fine");
    EXPECT_EQ(stripe_fault(header, 1492774577 + 301), "the signature's timestamp is too far from now");
    EXPECT_EQ(stripe_fault(header, 1492774577 - 301), "the signature's timestamp is too far from now");
}

TEST(StripeSignature, OfAnotherFormIsRefused) {
    const std::string form = "the signature is not in the provider's form";
    EXPECT_EQ(stripe_fault(""), form);
    EXPECT_EQ(stripe_fault("t=1492774577"), form);
    EXPECT_EQ(stripe_fault("t=1492774577,v1=xyz"), form);
    EXPECT_EQ(stripe_fault("t=1492774577,t=1492774577," + std::string(by_test)), form);
    EXPECT_EQ(stripe_fault("t=1492774577,v1="), "the signature is wrong");
    EXPECT_EQ(stripe_fault("t=1492774577," + std::string(by_test.substr(0, 35))), "the signature is wrong");
    EXPECT_EQ(fault_of(stripe(), {}, event, at(0)), "the signature is missing");
    EXPECT_EQ(fault_of(stripe(), {{"Stripe-Signature", by_test}, {"Stripe-Signature", by_test}}, event, at(0)),
              "the signature's header is there twice");
}

// ---- GitHub: the example of its page "Validating webhook deliveries" --------------------------------------------

Signature github() {
    Signature signature;
    signature.scheme = Signature::Scheme::github;
    signature.secrets = {"It's a Secret to Everybody"};
    return signature;
}

TEST(GithubSignature, IsOverTheBody) {
    constexpr std::string_view right = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    EXPECT_EQ(fault_of(github(), {{"X-Hub-Signature-256", right}}, "Hello, World!", at(0)), "fine");
    EXPECT_EQ(fault_of(github(), {{"X-Hub-Signature-256", right}}, "Hello, World?", at(0)), "the signature is wrong");
    EXPECT_EQ(fault_of(github(), {{"X-Hub-Signature-256", right.substr(7)}}, "Hello, World!", at(0)),
              "the signature is not in the provider's form");
    EXPECT_EQ(fault_of(github(), {{"X-Hub-Signature", right}}, "Hello, World!", at(0)), "the signature is missing");
}

// ---- configured ------------------------------------------------------------------------------------------------

// The example of Slack's page "Verifying requests from Slack".
TEST(HmacSignature, CanBeSlacks) {
    Signature slack;
    slack.secrets = {"8f742231b10e8888abcd99yyyzzz85a5"};
    slack.header = "X-Slack-Signature";
    slack.prefix = "v0=";
    slack.timestamp_header = "X-Slack-Request-Timestamp";
    slack.payload = "v0:{timestamp}:{body}";
    constexpr std::string_view body =
        "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&"
        "channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&"
        "response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&"
        "trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
    const http::Field sent{"X-Slack-Signature", "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"};
    const http::Field when{"X-Slack-Request-Timestamp", "1531420618"};
    EXPECT_EQ(fault_of(slack, {sent, when}, body, at(1531420618)), "fine");
    EXPECT_EQ(fault_of(slack, {sent, when}, body, at(1531420618 + 301)),
              "the signature's timestamp is too far from now");
    EXPECT_EQ(fault_of(slack, {sent}, body, at(1531420618)), "the signature is wrong");
    EXPECT_EQ(fault_of(slack, {sent, when, when}, body, at(1531420618)),
              "the signature's timestamp is missing or not a number of seconds");
}

// printf '{"id":820982911946154508}' | openssl dgst -sha256 -hmac hush -binary | base64
TEST(HmacSignature, CanBeInBase64) {
    Signature shopify;
    shopify.secrets = {"", "hush"};
    shopify.header = "X-Shopify-Hmac-Sha256";
    shopify.encoding = Signature::Encoding::base64;
    constexpr std::string_view body = R"({"id":820982911946154508})";
    constexpr std::string_view right = "qBvrsZF7RfB1iS6BX6IHqJTp5L911P7intnPeTPsH0I=";
    EXPECT_EQ(fault_of(shopify, {{"x-shopify-hmac-sha256", right}}, body, at(0)), "fine");
    EXPECT_EQ(fault_of(shopify, {{"x-shopify-hmac-sha256", right.substr(0, 43)}}, body, at(0)),
              "the signature is not in the provider's form");
}

TEST(HmacSignature, ATimestampIsAskedForAlsoIfItIsNotSigned) {
    Signature signature;
    signature.secrets = {"It's a Secret to Everybody"};
    signature.header = "X-Signature";
    signature.timestamp_header = "X-Time";
    const http::Field sent{"X-Signature", "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"};
    for (const std::string_view time : {"", "-5", "1e3", "1700000000x", "9999999999999"})
        EXPECT_EQ(fault_of(signature, {sent, {"X-Time", time}}, "Hello, World!", at(1700000000)),
                  "the signature's timestamp is missing or not a number of seconds")
            << time;
    EXPECT_EQ(fault_of(signature, {sent, {"X-Time", "1700000000"}}, "Hello, World!", at(1700000000)), "fine");
}

TEST(HmacSignature, AnEmptySecretSignsNothing) {
    Signature signature;
    signature.secrets = {""};
    signature.header = "X-Signature";
    const std::string forged = to_hex(HmacSha256("").of({"body"}));
    EXPECT_EQ(fault_of(signature, {{"X-Signature", forged}}, "body", at(0)), "the signature is wrong");
}

TEST(HmacSignature, BracesThatNameNothingAreText) {
    Signature signature;
    signature.secrets = {"s"};
    signature.header = "X-Signature";
    signature.payload = "{a}{body}{{body}";
    const std::string right = to_hex(HmacSha256("s").of({"{a}bodY{bodY"}));
    EXPECT_EQ(fault_of(signature, {{"X-Signature", right}}, "bodY", at(0)), "fine");
}

}  // namespace
}  // namespace semel::gateway
