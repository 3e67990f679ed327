// `semel ops show` of a workflow, by the real program: where it stands, its steps, and what happened in the order of time.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "order.hpp"
#include "semel/committer.hpp"
#include "support/temp_folder.hpp"

namespace semel::test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

std::string output_of(const std::string& command) {
    FILE* pipe = popen(command.c_str(), "r");
    std::string text;
    char piece[4096];
    for (std::size_t got = 0; (got = fread(piece, 1, sizeof piece, pipe)) > 0;) text.append(piece, got);
    EXPECT_EQ(pclose(pipe), 0) << command << "\n" << text;
    return text;
}

class Show : public testing::TestWithParam<std::string_view> {
protected:
    void SetUp() override {
        for (const char* name : {"charges", "refunds"}) std::filesystem::create_directory(folder_.path() / name);
        database_->run(done_table);
    }
    /// Runs one order to where it gets.
    void run(Honours honours, const std::string& key, const std::string& input, bool mute = false) {
        const auto store = database_->store();
        const auto committer = std::move(*Committer::start(*store));
        OrderParts parts{{folder_.path() / "charges", honours}, {folder_.path() / "refunds", honours}, honours, 1s};
        if (mute) parts.inside = [] { throw std::runtime_error("the connection broke"); };
        effects::WorkflowOptions options;
        options.inbox = [&] { return Result<std::unique_ptr<Inbox>>(database_->inbox()); };
        const auto workflow = std::move(*effects::Workflow::make(order_definition(parts), options, *committer));
        ASSERT_TRUE(workflow->run({.key = *Key::parse(key), .input = input}));
    }
    std::string show(const std::string& key, const std::string& more = "") {
        return output_of(
            fmt::format("{} ops show --store '{}' order {} {} 2>&1", SEMEL_BIN, database_->url(), key, more));
    }

    TempFolder folder_;
    std::unique_ptr<Database> database_ = make_database(GetParam());
};

TEST_P(Show, TellsTheStoryOfAWorkflow) {
    run(Honours::keys, "o1", "order");
    const auto completed = show("o1");
    EXPECT_THAT(completed, HasSubstr("workflow     order version 1: completed\n"));
    EXPECT_THAT(completed, ContainsRegex("\nreserve +local +settled +1 +200 "));
    EXPECT_THAT(completed, ContainsRegex("\ncharge +external +settled +1 +200 "));
    EXPECT_THAT(completed, ContainsRegex("charge +claimed, token [0-9]+\n"));
    EXPECT_THAT(completed, ContainsRegex("\\(workflow\\) +settled, token [0-9]+, status 200\n"));
    EXPECT_THAT(completed, Not(HasSubstr("undo")));

    run(Honours::keys, "o2", "fail");
    const auto compensated = show("o2");
    EXPECT_THAT(compensated, HasSubstr("order version 1: compensated, since ship failed with status 422\n"));
    EXPECT_THAT(compensated, ContainsRegex("\nundo charge +external +settled "));
    EXPECT_LT(compensated.find("undo charge "), compensated.find("undo reserve "));
}

TEST_P(Show, SaysWhatAParkedWorkflowWaitsFor) {
    run(Honours::nothing, "o3", "order", true);
    const auto parked = show("o3");
    EXPECT_THAT(parked, HasSubstr("order version 1: parked\n"));
    EXPECT_THAT(parked, ContainsRegex("\ncharge +external +unknown +1 "));
    EXPECT_THAT(parked, HasSubstr("charge: nobody knows what became of it"));
    const auto json = show("o3", "--json");
    EXPECT_THAT(json, HasSubstr(R"("status":"parked","parked_at":"charge")"));
    EXPECT_THAT(json, HasSubstr(R"("name":"ship","kind":"local")"));
    EXPECT_THAT(json, HasSubstr(R"("step":"charge","what":"abandoned")"));
    // The command it names to copy works, with the password that it leaves out.
    const auto at = parked.rfind(" order:charge ");
    const auto step = output_of(fmt::format("{} ops show --store '{}'{}", SEMEL_BIN, database_->url(),
                                            parked.substr(at, parked.find('\n', at) - at)));
    EXPECT_THAT(step, HasSubstr("state        unknown since"));
    EXPECT_THAT(step, HasSubstr("order:charge"));
}

INSTANTIATE_TEST_SUITE_P(Databases, Show, testing::ValuesIn(database_names),
                         [](const auto& database) { return std::string(database.param); });

}  // namespace
}  // namespace semel::test
