#include "gateway/route_match.hpp"

#include <gtest/gtest.h>

#include "http/target.hpp"

namespace semel::gateway {
namespace {

std::vector<Route> routes_of(const std::vector<std::string>& matches) {
    std::vector<Route> routes;
    for (const std::string& text : matches) {
        auto match = parse_match(text);
        EXPECT_TRUE(match.ok()) << text;
        Route route;
        route.name = text;
        route.match = *match;
        routes.push_back(std::move(route));
    }
    return routes;
}

std::string found(const std::vector<Route>& routes, std::string_view method, std::string_view path) {
    const Route* const route = RouteTable(routes).find(method, path);
    return route == nullptr ? "none" : route->name;
}

TEST(RouteMatch, ReadsMethodAndPath) {
    const auto match = parse_match("POST /v1/payments/{id}/refunds/*");
    ASSERT_TRUE(match.ok());
    EXPECT_EQ(match->method, "POST");
    EXPECT_EQ(match->segments, (std::vector<std::string>{"v1", "payments", "{}", "refunds"}));
    EXPECT_TRUE(match->rest);
    EXPECT_EQ(match->text, "POST /v1/payments/{id}/refunds/*");
}

TEST(RouteMatch, RefusesWhatIsNoPattern) {
    for (const char* text : {"",
                             "POST",
                             "/v1",
                             "POST/v1",
                             "post /v1",
                             "POST v1",
                             "POST  /v1",
                             "POST /v1 ",
                             "CONNECT /v1",
                             "POST /a?b",
                             "POST /a#b",
                             "POST /a//b",
                             "POST /a/../b",
                             "POST /a/./b",
                             "POST /%70",
                             "POST /a%2fb",
                             "POST /*/b",
                             "POST /a*",
                             "POST /a{id}",
                             "POST /{id}b",
                             "POST /{}",
                             "POST /{a b}",
                             "POST /{",
                             "POST /}",
                             "P\xc3\x96ST /a",
                             "POST /\xc3\xb6",
                             "** /a",
                             "POST *",
                             "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHI /a"}) {
        const auto match = parse_match(text);
        EXPECT_FALSE(match.ok()) << text;
        if (match) continue;
        EXPECT_NE(match.failure().message.find("write METHOD PATH"), std::string::npos) << text;
    }
    for (const char* text : {"POST /", "* /*", "GET /a/", "PURGE /a", "M-SEARCH /a%20b", "POST /{payment_id}/"})
        EXPECT_TRUE(parse_match(text).ok()) << text;
}

TEST(RouteMatch, ComparesPathsAsTheyAreWritten) {
    struct Row {
        const char* match;
        const char* method;
        const char* path;
        bool matches;
    };
    for (const Row& row : std::vector<Row>{
             {"POST /v1/payments", "POST", "/v1/payments", true},
             {"POST /v1/payments", "GET", "/v1/payments", false},
             {"POST /v1/payments", "post", "/v1/payments", false},
             {"POST /v1/payments", "POST", "/v1/payments/", false},
             {"POST /v1/payments", "POST", "/v1/payment", false},
             {"POST /v1/payments", "POST", "/v1/paymentsx", false},
             {"POST /v1/payments", "POST", "/V1/payments", false},
             {"POST /v1/payments/", "POST", "/v1/payments/", true},
             {"POST /v1/payments/", "POST", "/v1/payments", false},
             {"* /v1/payments", "ANY", "/v1/payments", true},
             {"POST /", "POST", "/", true},
             {"POST /", "POST", "", false},
             {"POST /", "POST", "//", false},
             {"POST /p/{id}", "POST", "/p/1", true},
             {"POST /p/{id}", "POST", "/p/", false},
             {"POST /p/{id}", "POST", "/p", false},
             {"POST /p/{id}", "POST", "/p/1/", false},
             {"POST /p/{id}", "POST", "/p/1/2", false},
             {"POST /p/{id}/r", "POST", "/p/1/r", true},
             {"POST /p/{id}/r", "POST", "/p/1/s", false},
             {"POST /p/{id}/r", "POST", "/p/1/r/", false},
             {"POST /p/{id}/r", "POST", "/p//r", false},
             {"POST /p/{id}/", "POST", "/p/1/", true},
             {"POST /p/{id}/", "POST", "/p/1", false},
             {"POST /{a}/{b}", "POST", "/1/2", true},
             {"POST /{a}/{b}", "POST", "/1", false},
             {"POST /v1/*", "POST", "/v1/", true},
             {"POST /v1/*", "POST", "/v1/a", true},
             {"POST /v1/*", "POST", "/v1/a/b/", true},
             {"POST /v1/*", "POST", "/v1", false},
             {"POST /v1/*", "POST", "/v10", false},
             {"POST /*", "POST", "/", true},
             {"POST /*", "POST", "/a/b", true},
             {"POST /*", "POST", "*", false},
             {"POST /p/{id}/*", "POST", "/p/1/", true},
             {"POST /p/{id}/*", "POST", "/p/1/a/b", true},
             {"POST /p/{id}/*", "POST", "/p/1", false},
             {"POST /p/{id}/*", "POST", "/p//a", false},
         })
        EXPECT_EQ(found(routes_of({row.match}), row.method, row.path) != "none", row.matches)
            << row.match << " for " << row.method << " " << row.path;
}

TEST(RouteMatch, TheFirstListedCounts) {
    const auto routes = routes_of({"POST /a/{id}", "* /a/b", "GET /a/b", "POST /a/*", "* /*", "POST /z"});
    EXPECT_EQ(found(routes, "POST", "/a/b"), "POST /a/{id}");
    EXPECT_EQ(found(routes, "GET", "/a/b"), "* /a/b");
    EXPECT_EQ(found(routes, "POST", "/a/b/c"), "POST /a/*");
    EXPECT_EQ(found(routes, "POST", "/z"), "* /*");
    const auto exact_first = routes_of({"POST /z", "* /*"});
    EXPECT_EQ(found(exact_first, "POST", "/z"), "POST /z");
    EXPECT_EQ(found(exact_first, "GET", "/z"), "* /*");
    EXPECT_EQ(found({}, "GET", "/z"), "none");
}

TEST(RouteMatch, KnowsWhatIsNeverReached) {
    struct Row {
        const char* earlier;
        const char* later;
        bool covers;
    };
    for (const Row& row : std::vector<Row>{
             {"POST /a", "POST /a", true},       {"POST /a", "GET /a", false},      {"* /a", "GET /a", true},
             {"GET /a", "* /a", false},          {"POST /{x}", "POST /a", true},    {"POST /{x}", "POST /{y}", true},
             {"POST /a", "POST /{x}", false},    {"POST /{x}", "POST /", false},    {"POST /*", "POST /", true},
             {"POST /*", "POST /a/b", true},     {"POST /*", "POST /*", true},      {"POST /a/*", "POST /a", false},
             {"POST /a/*", "POST /a/", true},    {"POST /a/*", "POST /*", false},   {"POST /a/*", "POST /a/b/*", true},
             {"POST /{x}/*", "POST /a/*", true}, {"POST /a/b", "POST /a/*", false}, {"POST /{x}/*", "POST /a", false},
             {"* /*", "* /{x}/y/*", true},
         }) {
        EXPECT_EQ(covers(*parse_match(row.earlier), *parse_match(row.later)), row.covers)
            << row.earlier << " before " << row.later;
    }
}

// Such paths are refused, so that no upstream that reads them more generously is reached without the ledger.
TEST(RouteMatch, APathThatIsNotPlainDoesNotGetPastAKeyedRoute) {
    auto routes = routes_of({"POST /v1/payments", "POST /v1/payments/{id}/refunds", "POST /v2/*", "GET /v1/payments",
                             "* /any", "POST /with%20space/"});
    routes[3].key = KeyUse::ignored;
    routes[4].key_of_post_and_patch = true;
    const RouteTable table(routes);
    for (const char* path : {"/v1//payments",
                             "//v1/payments",
                             "/v1/payments//",
                             "/v1/%70ayments",
                             "/%76%31/payments",
                             "/v1/./payments",
                             "/v1/%2e/payments",
                             "/x/../v1/payments",
                             "/x/%2e%2e/v1/payments",
                             "/x/%2E./v1/payments",
                             "/v1%2Fpayments",
                             "/v1%2fpayments",
                             "/v1%5Cpayments",
                             "/v1/x/..//payments",
                             "/../v1/payments",
                             "/v1/payments/.",
                             "/v1/payments/%2e",
                             "/v1/payments/x/..",
                             "/x//../v1/payments",
                             "/x/y//../../../v1/payments",
                             "/v1/payments/a%2Fb/refunds",
                             "/v1//payments/1/refunds",
                             "/v2/..",
                             "/v2//",
                             "/v2/x/../../v2/y",
                             "//any",
                             "/with%20space/.",
                             "/v1/payments/../refunds/x/../../payments"})
        EXPECT_TRUE(table.could_match_normalised("POST", path)) << path;
    for (const char* path :
         {"/v1//x", "/x/../v1", "//", "/v1/%70", "/v1/payments/../x", "/v1/payments/1//x", "/%2e%2e"})
        EXPECT_FALSE(table.could_match_normalised("POST", path)) << path;
    EXPECT_FALSE(table.could_match_normalised("GET", "/v1//payments")) << "no key, nothing to get past";
    EXPECT_FALSE(table.could_match_normalised("GET", "//any"));
    EXPECT_TRUE(table.could_match_normalised("PATCH", "//any"));
}

TEST(RouteMatch, AKeyIsOfPostAndPatchWhereAnyMethodMatchesAndNothingElseIsSaid) {
    Route route;
    EXPECT_EQ(route.key_for("GET"), KeyUse::required) << "written";
    route.key_of_post_and_patch = true;
    EXPECT_EQ(route.key_for("POST"), KeyUse::required);
    EXPECT_EQ(route.key_for("PATCH"), KeyUse::required);
    EXPECT_EQ(route.key_for("PUT"), KeyUse::ignored);
    EXPECT_EQ(route.key_for("post"), KeyUse::ignored) << "methods are case-sensitive";
}

}  // namespace
}  // namespace semel::gateway
