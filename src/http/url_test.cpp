#include "http/url.hpp"

#include <gtest/gtest.h>

namespace semel::http {
namespace {

TEST(HttpUrl, IsSplit) {
    struct Row {
        std::string_view text, host, port, authority, target;
        bool tls;
    };
    for (const Row& row : {
             Row{"http://127.0.0.1:8080/v1/pay?x=1", "127.0.0.1", "8080", "127.0.0.1:8080", "/v1/pay?x=1", false},
             Row{"https://api.example.com", "api.example.com", "443", "api.example.com", "/", true},
             Row{"HTTP://Example/", "Example", "80", "Example", "/", false},
             Row{"http://[::1]:81/a", "::1", "81", "[::1]:81", "/a", false},
             Row{"http://[::1]/a", "::1", "80", "[::1]", "/a", false},
             Row{"http://h?q=a@b", "h", "80", "h", "/?q=a@b", false},
         }) {
        const auto url = Url::parse(row.text);
        ASSERT_TRUE(url) << row.text << ": " << url.failure().message;
        EXPECT_EQ(url->host, row.host);
        EXPECT_EQ(url->port, row.port);
        EXPECT_EQ(url->authority, row.authority);
        EXPECT_EQ(url->target, row.target);
        EXPECT_EQ(url->tls, row.tls);
    }
}

TEST(HttpUrl, IsRefusedWithWhatWouldBeRight) {
    for (const std::string_view text :
         {"", "127.0.0.1:8080", "ftp://h/", "http://", "http:///a", "http://h:99999/", "http://h:0/", "http://h/#top",
          "http://h/a b", "http://h/%zz", "http://h\r\nX: y/", "http://[::1", "http://u@h/"}) {
        const auto url = Url::parse(text);
        ASSERT_FALSE(url) << text;
        EXPECT_EQ(url.failure().code, Code::invalid);
        EXPECT_NE(url.failure().message.find("http://127.0.0.1:8080/v1/payments"), std::string::npos);
    }
}

TEST(HttpUrl, WithAPasswordIsNeverQuoted) {
    const auto url = Url::parse("http://user:hunter2@h/");
    ASSERT_FALSE(url);
    EXPECT_EQ(url.failure().message.find("hunter2"), std::string::npos) << url.failure().message;
}

TEST(HttpUrl, AQueryIsNeverQuoted) {
    for (const std::string_view text : {"http://h/p?token=hunter2#top", "http://h/p?token=hunter2 x",
                                        "http://h:0/p?token=hunter2", "ftp://h/p?token=hunter2"}) {
        const auto url = Url::parse(text);
        ASSERT_FALSE(url) << text;
        EXPECT_EQ(url.failure().message.find("hunter2"), std::string::npos) << url.failure().message;
        EXPECT_NE(url.failure().message.find("/p\""), std::string::npos) << url.failure().message;
    }
}

}  // namespace
}  // namespace semel::http
