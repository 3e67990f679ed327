#include "api/commands.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/bytes.hpp"
#include "semel/fingerprint.hpp"

namespace semel::api {
namespace {

const Caller acme{"orders", "acme", {.hold = true, .read = false, .resolve = true}};
constexpr std::string_view attempt = "00112233445566778899aabbccddeeff";

Asked read(std::string_view name, std::string_view body, const Caller& caller = acme) {
    auto answer = read_command(name, body, caller);
    if (const auto* refused = std::get_if<Refused>(&answer)) ADD_FAILURE() << body << ": " << refused->text();
    return std::get<Asked>(std::move(answer));
}

std::string why(std::string_view name, std::string_view body, const Caller& caller = acme) {
    auto answer = read_command(name, body, caller);
    return std::holds_alternative<Refused>(answer) ? std::get<Refused>(answer).text() : "taken";
}

Claim claim(std::string_view body) { return std::get<Claim>(read("claim", body).command); }

TEST(Commands, AClaimHasStatedDefaults) {
    const Claim c = claim(R"({"scope":"charges","key":"k1","request":{}})");
    EXPECT_EQ(c.operation.text(), (Operation{*Scope::make("acme", "charges"), *Key::parse("k1")}.text()));
    EXPECT_EQ(c.policy, Policy{});
    EXPECT_EQ(c.correlation, "");
    EXPECT_FALSE(c.key_time);
    EXPECT_NE(c.attempt, Attempt{});
    EXPECT_FALSE(read("claim", R"({"scope":"charges","key":"k1","request":{}})").attempt_given);
}

TEST(Commands, AClaimSaysItsPolicy) {
    const Asked asked = read("claim", R"({"scope":"charges","generation":7,"key":"018f2f6e-7b1a-7000-8000-000000000000",
        "fingerprint":"0123456789abcdef0123456789ABCDEF","attempt":"00112233-4455-6677-8899-aabbccddeeff",
        "correlation":"order 17","policy":{"on_unknown":"retry","dedup_window":"24h","lease":"10s","effect_deadline":"1m",
        "retention":"7d","response_retention":"permanent"}})");
    const Claim& c = std::get<Claim>(asked.command);
    EXPECT_TRUE(asked.attempt_given);
    EXPECT_EQ(asked.lease, std::chrono::seconds{10});
    EXPECT_EQ(c.operation.scope.generation(), 7U);
    EXPECT_EQ(to_hex(c.fingerprint.bytes), "0123456789abcdef0123456789abcdef");
    EXPECT_EQ(to_hex(c.attempt.bytes), attempt);
    EXPECT_EQ(c.correlation, "order 17");
    EXPECT_EQ(c.policy.on_unknown, OnUnknown::retry);
    EXPECT_EQ(c.policy.dedup_window, std::chrono::hours{24});
    EXPECT_EQ(c.policy.effect_deadline, std::chrono::minutes{1});
    EXPECT_EQ(c.policy.retention.identity, std::chrono::hours{24 * 7});
    EXPECT_FALSE(c.policy.retention.response);
    EXPECT_TRUE(c.key_time);
}

TEST(Commands, ARequestCountsByWhatItSaysNotByItsSpelling) {
    const auto of = [](std::string_view request) {
        return claim(fmt::format(R"({{"scope":"s","key":"k","request":{}}})", request)).fingerprint;
    };
    EXPECT_EQ(of(R"({"amount":1.0,"to":"é"})"), of(R"( {"to":"\u00e9" , "amount":1e0} )"));
    EXPECT_NE(of(R"({"amount":9007199254740993})"), of(R"({"amount":9007199254740992})"));
    EXPECT_NE(of("null"), of("\"null\""));
    EXPECT_EQ(of(R"({"a":[1]})"), fingerprint_of_bytes(R"({"a":[1]})"));
}

TEST(Commands, ARequestCountsTheSameInABatch) {
    auto batch =
        read_batch(R"({"groups":[[{"command":"claim","scope":"s","key":"k","request":{"b":1,"a":2}}]]})", acme);
    const Groups& groups = std::get<Groups>(batch);
    EXPECT_EQ(std::get<Claim>(groups[0][0].command).fingerprint,
              claim(R"({"scope":"s","key":"k","request":{"a":2,"b":1}})").fingerprint);
}

TEST(Commands, TheTenantIsTheCallersWhateverTheBodySays) {
    const Caller other{"x", "other", {.hold = true}};
    const auto id = [](const Caller& caller) {
        return id_of(read("claim", R"({"scope":"acme/charges","key":"k","request":1})", caller).command);
    };
    EXPECT_NE(id(acme), id(other));
    EXPECT_EQ(why("claim", R"({"scope":"s","tenant":"other","key":"k","request":1})"),
              R"(no such name here: "tenant")");
    EXPECT_EQ(
        why("settle", R"({"id":"00","scope":"s","key":"k","token":"1","attempt":"00112233445566778899aabbccddeeff",
        "outcome":{"status":1}})"),
        R"(no such name here: "id")");
}

TEST(Commands, AHolderIsATokenAndAnAttempt) {
    const auto body =
        fmt::format(R"({{"scope":"s","key":"k","token":"18446744073709551615","attempt":"{}"}})", attempt);
    for (const std::string_view name : {"renew", "release", "abandon"}) {
        const Command command = read(name, body).command;
        const Holder holder =
            std::visit(match{[](const Renew& c) { return c.holder; }, [](const Release& c) { return c.holder; },
                             [](const Abandon& c) { return c.holder; }, [](const auto&) { return Holder{}; }},
                       command);
        EXPECT_EQ(holder.token.value, 18446744073709551615U) << name;
        EXPECT_EQ(to_hex(holder.attempt.bytes), attempt) << name;
        EXPECT_EQ(holder.id, (Operation{*Scope::make("acme", "s"), *Key::parse("k")}.id())) << name;
    }
}

TEST(Commands, AnOutcomeIsTextOrBytesOrATombstone) {
    const auto outcome = [](std::string_view text) {
        return std::get<Settle>(
                   read("settle", fmt::format(R"({{"scope":"s","key":"k","token":"1","attempt":"{}","outcome":{}}})",
                                              attempt, text))
                       .command)
            .outcome;
    };
    EXPECT_EQ(outcome(R"({"status":201,"body":"{\"id\":1}\u0000"})"),
              (Outcome{201, std::string("{\"id\":1}\0", 9), true}));
    EXPECT_EQ(outcome(R"({"status":201,"body_base64":"/wA="})"), (Outcome{201, std::string("\xff\0", 2), true}));
    EXPECT_EQ(outcome(R"({"status":204})"), (Outcome{204, "", true}));
    EXPECT_EQ(outcome(R"({"status":200,"kept":false})"), Outcome::tombstone(200));
}

TEST(Commands, APersonsDecisionNamesItsToken) {
    const auto resolve = [](std::string_view rest) {
        return std::get<Resolve>(
            read("resolve", fmt::format(R"({{"scope":"s","key":"k","token":"3","why":"asked them",{}}})", rest))
                .command);
    };
    const Resolve happened = resolve(R"("verdict":"happened","outcome":{"status":200,"body":"x"})");
    EXPECT_EQ(happened.who, "orders");
    EXPECT_EQ(happened.why, "asked them");
    EXPECT_EQ(happened.outcome, (Outcome{200, "x", true}));
    EXPECT_EQ(happened.token_seen.value, 3U);
    EXPECT_FALSE(resolve(R"("verdict":"did_not_happen")").outcome);
}

TEST(Commands, WhatIsWrongIsToldAllAtOnce) {
    EXPECT_EQ(
        why("claim", R"({"key":7,"lease":"5s","generation":-1,"policy":{"lease":"5 s","retry":true}})"),
        "scope: missing; write what kind of work it is, as in charges; "
        "key: write which one it is, as a string; "
        "generation: write a whole number from 0 to 4294967295; "
        "request: write what is asked for, as any JSON value; or its fingerprint, 32 hex digits; not both: another "
        "request under the same key is told by it; "
        "policy.lease: duration \"5 s\": unknown unit \" s\"; write a whole number and a unit (us, ms, s, m, h, d), as "
        "in 250ms, 30s or 24h; "
        "policy: no such name here: \"retry\"; "
        "no such name here: \"lease\"");
}

TEST(Commands, HostileBodiesAreRefused) {
    const std::string deep = std::string(200, '[') + std::string(200, ']');
    const std::string holder = fmt::format(R"("scope":"s","key":"k","token":"1","attempt":"{}")", attempt);
    const struct {
        std::string_view command;
        std::string body;
        std::string_view says;
    } rows[] = {
        {"claim", "", "no JSON"},
        {"claim", "{", "no JSON"},
        {"claim", "\xff", "no JSON"},
        {"claim", "[]", "write an object"},
        {"claim", "null", "write an object"},
        {"claim", R"({"scope":"s","scope":"t","key":"k","request":1})", "no JSON"},
        {"claim", R"({"scope":"s","key":"k","request":NaN})", "no JSON"},
        {"claim", R"({"scope":"s","key":"k","request":1e9999999999999999999})", "out of all proportion"},
        {"claim", R"({"scope":"s","key":"k","request":)" + deep + "}", "no JSON"},
        {"claim", R"({"scope":"s","key":"k\ud800","request":1})", "no JSON"},
        {"claim", R"({"scope":"","key":"k","request":1})", "scope: "},
        {"claim", R"({"scope":"a#1","key":"k","request":1})", "scope: "},
        {"claim", R"({"scope":"s","key":"","request":1})", "key: "},
        {"claim", R"({"scope":"s","key":"\u0000","request":1})", "key: "},
        {"claim", R"({"scope":"s","key":")" + std::string(256, 'k') + R"(","request":1})", "key: "},
        {"claim", R"({"scope":"s","key":"k","generation":1e2,"request":1})", "generation: "},
        {"claim", R"({"scope":"s","key":"k","generation":4294967296,"request":1})", "generation: "},
        {"claim", R"({"scope":"s","key":"k","generation":99999999999999999999,"request":1})", "generation: "},
        {"claim", R"({"scope":"s","key":"k","fingerprint":"12","request":1})", "not both"},
        {"claim", R"({"scope":"s","key":"k","fingerprint":"12"})", "fingerprint: write 32 hex digits"},
        {"claim", R"({"scope":"s","key":"k","request":1,"attempt":"1"})", "attempt: "},
        {"claim", R"({"scope":"s","key":"k","request":1,"attempt":"00000000000000000000000000000000"})", "attempt: "},
        {"claim", R"({"scope":"s","key":"k","request":1,"correlation":"\n"})", "correlation"},
        {"claim", R"({"scope":"s","key":"k","request":1,"policy":[]})", "policy: write an object"},
        {"claim", R"({"scope":"s","key":"k","request":1,"policy":{"lease":"0s"}})", "lease is 0 ms"},
        {"claim", R"({"scope":"s","key":"k","request":1,"policy":{"lease":"9999d"}})", "lease is"},
        {"claim", R"({"scope":"s","key":"k","request":1,"policy":{"on_unknown":"joined"}})", "joined is for"},
        {"claim", R"({"scope":"s","key":"k","request":1,"policy":{"on_unknown":"retry"}})", "needs a dedup_window"},
        {"claim", R"({"scope":"s","key":"k","request":1,"policy":{"dedup_window":"1h"}})", "belongs to on_unknown"},
        {"claim", R"({"scope":"s","key":"k","request":1,"policy":{"retention":"7d"}})", "use a UUIDv7 as key"},
        {"renew", R"({"scope":"s","key":"k","token":7,"attempt":"00112233445566778899aabbccddeeff"})", "token: "},
        {"renew", R"({"scope":"s","key":"k","token":"0","attempt":"00112233445566778899aabbccddeeff"})", "token: "},
        {"renew",
         R"({"scope":"s","key":"k","token":"18446744073709551616","attempt":"00112233445566778899aabbccddeeff"})",
         "token: "},
        {"renew", R"({"scope":"s","key":"k","token":"-1","attempt":"00112233445566778899aabbccddeeff"})", "token: "},
        {"renew", R"({"scope":"s","key":"k","token":"1"})", "attempt: missing"},
        {"settle", "{" + holder + "}", "outcome: missing"},
        {"settle", "{" + holder + R"(,"outcome":{}})", "outcome.status: missing"},
        {"settle", "{" + holder + R"(,"outcome":{"status":2e2}})", "outcome.status: "},
        {"settle", "{" + holder + R"(,"outcome":{"status":1,"body":1}})", "outcome.body: "},
        {"settle", "{" + holder + R"(,"outcome":{"status":1,"body":"","body_base64":""}})", "not both"},
        {"settle", "{" + holder + R"(,"outcome":{"status":1,"body_base64":"Zg"}})", "base64"},
        {"settle", "{" + holder + R"(,"outcome":{"status":1,"kept":false,"body":"x"}})", "outcome.kept: "},
        {"settle", "{" + holder + R"(,"conclusive":"yes","outcome":{"status":1}})", "conclusive: "},
        {"checkpoint", "{" + holder + R"(,"name":"a"})", "value: missing"},
        {"checkpoint", "{" + holder + R"(,"name":"","value":"x"})", "checkpoint's name"},
        {"resolve", R"({"scope":"s","key":"k","token":"1","why":"x","verdict":"maybe"})", "verdict: "},
        {"resolve", R"({"scope":"s","key":"k","token":"1","why":"x","verdict":"happened"})", "outcome: missing"},
        {"resolve", R"({"scope":"s","key":"k","token":"1","why":"","verdict":"did_not_happen"})", "say why"},
        {"resolve",
         R"({"scope":"s","key":"k","token":"1","why":"x","verdict":"did_not_happen","outcome":{"status":1}})",
         "outcome: "},
        {"resolve", R"({"scope":"s","key":"k","token":"1","why":"x","verdict":"did_not_happen","who":"me"})",
         "no such name here: \"who\""},
    };
    for (const auto& row : rows) {
        const std::string told = why(row.command, row.body);
        EXPECT_NE(told.find(row.says), std::string::npos) << row.body.substr(0, 200) << "\n says: " << told;
    }
}

TEST(Commands, ManyProblemsAreToldBriefly) {
    std::string body = R"({"scope":"s","key":"k","request":1)";
    for (int i = 0; i < 100; ++i) body += fmt::format(R"(,"x{}":1)", i);
    const auto refused = std::get<Refused>(read_command("claim", body + "}", acme));
    EXPECT_EQ(refused.problems.size(), problems_max + 1);
    EXPECT_EQ(refused.problems.back(), "and more");
}

TEST(Commands, RolesDecideWhatMayBeAsked) {
    const Caller holder{"h", "acme", {.hold = true}};
    const Caller reader{"r", "acme", {.read = true}};
    const Caller person{"p", "acme", {.resolve = true}};
    const auto by_role = [](std::string_view name, const Caller& caller) {
        const auto answer = read_command(name, "{}", caller);
        return std::get<Refused>(answer).role;
    };
    for (const std::string_view name : {"claim", "renew", "checkpoint", "settle", "release", "abandon"}) {
        EXPECT_FALSE(by_role(name, holder)) << name;
        EXPECT_TRUE(by_role(name, reader)) << name;
        EXPECT_TRUE(by_role(name, person)) << name;
    }
    EXPECT_TRUE(by_role("resolve", holder));
    EXPECT_TRUE(by_role("resolve", reader));
    EXPECT_FALSE(by_role("resolve", person));
    const auto in_batch = read_batch(
        R"({"groups":[[{"command":"resolve","scope":"s","key":"k","token":"1","why":"x","verdict":"did_not_happen"}]]})",
        holder);
    EXPECT_TRUE(std::get<Refused>(in_batch).role);
    EXPECT_TRUE(std::holds_alternative<Operation>(read_find("scope=s&key=k", reader)));
    EXPECT_TRUE(std::get<Refused>(read_find("scope=s&key=k", Caller{"n", "acme", {}})).role);
}

TEST(Commands, ABatchHasGroupsOfCommandsAndLimits) {
    const auto told = [](const std::string& body) {
        auto answer = read_batch(body, acme);
        return std::holds_alternative<Refused>(answer) ? std::get<Refused>(answer).text() : "taken";
    };
    const std::string one = R"({"command":"claim","scope":"s","key":"k","request":1})";
    const auto times = [](const std::string& text, std::size_t count) {
        std::string out = text;
        for (std::size_t i = 1; i < count; ++i) out += "," + text;
        return out;
    };
    EXPECT_EQ(told(R"({"groups":[[)" + one + "]]}"), "taken");
    EXPECT_EQ(told(R"({"groups":[)" + times("[" + one + "]", groups_max) + "]}"), "taken");
    EXPECT_EQ(told(R"({"groups":[)" + times("[" + one + "]", groups_max + 1) + "]}"),
              "groups: write a list with 1 to 128 elements");
    EXPECT_EQ(told(R"({"groups":[[]]})"), "groups[0]: write a list with 1 to 16 elements");
    EXPECT_EQ(told(R"({"groups":{}})"), "groups: write a list with 1 to 128 elements");
    EXPECT_EQ(told(R"({})"), "groups: missing; write a list of groups, each a list of commands");
    EXPECT_EQ(told(R"({"groups":[["claim"]]})"), "groups[0][0]: write an object");
    EXPECT_EQ(told(R"({"groups":[[{"command":"find"}]]})"),
              "groups[0][0].command: write claim, renew, checkpoint, settle, release, abandon or resolve");
    EXPECT_EQ(told(R"({"groups":[[)" + one + "," + one + "]]}"),
              "groups[0]: two of its commands are about the same operation; put them into groups of their own");
    const std::string named =
        R"({"command":"claim","scope":"s","key":"l","request":1,"attempt":"00112233445566778899aabbccddeeff"})";
    EXPECT_EQ(told(R"({"groups":[[)" + one + "," + named + "]]}"),
              "groups[0]: some of its claims name their attempt and some do not; name all of them, or none");
    EXPECT_EQ(told(R"({"groups":[[)" + one + "],[" + named + "]]}"), "taken");
    EXPECT_EQ(told(R"({"groups":[[)" + one + R"(],[{"command":"claim","scope":"s","request":1}]]})"),
              "groups[1][0].key: missing; write which one it is: the same on every retry");
}

TEST(Commands, AFindNamesOneOperation) {
    const auto told = [](std::string_view query) {
        auto answer = read_find(query, acme);
        if (const auto* refused = std::get_if<Refused>(&answer)) return refused->text();
        return std::get<Operation>(answer).text();
    };
    EXPECT_EQ(told("scope=a%2Fb&key=k+1%2B&generation=2"),
              (Operation{*Scope::make("acme", "a/b", 2), *Key::parse("k 1+")}.text()));
    EXPECT_EQ(told("scope=s"), "key: missing");
    EXPECT_EQ(told(""), "scope: missing; key: missing");
    EXPECT_EQ(told("scope=s&key=k&tenant=other"), "parameters: scope, key and generation");
    EXPECT_EQ(told("scope=s&key=k&key=l"), "the query has a parameter twice, or a broken percent-encoding");
    EXPECT_EQ(told("scope=s&key=%zz"), "the query has a parameter twice, or a broken percent-encoding");
    EXPECT_EQ(told("scope=s&key=k&generation=-1"), "generation: write a whole number");
}

}  // namespace
}  // namespace semel::api
