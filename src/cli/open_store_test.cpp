#include "cli/open_store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace semel::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(StoreUrl, IsAFileOrAPostgresUri) {
    EXPECT_EQ(parse_store_url("sqlite:semel.db")->place, "semel.db");
    EXPECT_EQ(parse_store_url("sqlite:/var/lib/semel.db")->text(), "sqlite:/var/lib/semel.db");
    EXPECT_EQ(parse_store_url("postgres://u@h/d")->kind, StoreUrl::Kind::postgres);
    EXPECT_EQ(parse_store_url("postgresql://u:secret@h:5433/d?sslmode=require")->text(),
              "postgresql://u@h:5433/d?sslmode=require");
}

TEST(StoreUrl, AnythingElseIsRefusedAndNamed) {
    for (const char* bad :
         {"", "semel.db", "sqlite:", "sqlite::memory:", "sqlite://x/y.db", "sqlite:folder/", "sqlite:a\nb",
          "mysql://h/d", "postgres:", "postgres://h:port/d?nonsense", "postgres://%zz@h/d", "SQLITE:x"}) {
        const auto url = parse_store_url(bad);
        ASSERT_FALSE(url) << bad;
        EXPECT_EQ(url.failure().code, Code::invalid) << bad;
        EXPECT_THAT(url.failure().message, HasSubstr("store")) << bad;
    }
}

TEST(StoreUrl, ARefusalNeverShowsAPassword) {
    for (const char* bad :
         {"mysql://root:secret@h/d", "postgres://u:secret%zz@h/d", "postgres://h/d?password=secret&nonsense"}) {
        const auto url = parse_store_url(bad);
        ASSERT_FALSE(url) << bad;
        EXPECT_THAT(url.failure().message, Not(HasSubstr("secret"))) << bad;
    }
}

}  // namespace
}  // namespace semel::cli
