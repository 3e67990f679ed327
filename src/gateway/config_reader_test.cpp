#include "gateway/config_reader.hpp"

#include <gtest/gtest.h>

namespace semel::gateway {
namespace {

TEST(ConfigReader, ReadsTheFirstExample) {
    const ReadConfig read = read_config_text(R"(store: sqlite:semel.db
listen: 127.0.0.1:8080
upstream: http://127.0.0.1:9000
tenant: none
routes:
  - match: POST /v1/payments
)",
                                             "semel.yaml", [](const std::string&) { return nullptr; });
    ASSERT_TRUE(read.config.has_value()) << read.problems.at(0).text();
    EXPECT_EQ(read.config->routes.at(0).name, "POST /v1/payments");
}

}  // namespace
}  // namespace semel::gateway
