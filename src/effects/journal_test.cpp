// What a workflow keeps about itself, and which definitions may go on with it.
#include "effects/journal.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace semel::effects {
namespace {

using testing::HasSubstr;

Step local(std::string name) { return {std::move(name), Local{}, std::nullopt}; }
Step external(std::string name) { return {std::move(name), External{}, Local{}}; }

Definition order(std::uint32_t version, std::vector<Step> steps, std::vector<Continues> continues = {}) {
    Definition definition{.name = "order", .version = version};
    definition.steps = std::move(steps);
    definition.continues = std::move(continues);
    return definition;
}

std::vector<std::string> keys(const Journal& journal) {
    std::vector<std::string> found;
    for (const JournalStep& step : journal.steps) found.push_back(step.key);
    return found;
}

TEST(Journal, IsReadBackAsItWasWritten) {
    Journal journal = fresh_journal(order(3, {local("a"), external("b \"quoted\"")}));
    journal.correlation = "c-1";
    journal.payload = std::string("bytes \n\0 as they are", 20);
    EXPECT_EQ(from_stored(to_stored(journal)), journal);
    journal.ended = "compensated";
    journal.failed_step = "b";
    journal.failed_status = 402;
    journal.not_undone = {"a"};
    EXPECT_EQ(from_stored(to_stored(journal)), journal);
}

TEST(Journal, OtherTextIsNone) {
    const std::string good = to_stored(fresh_journal(order(1, {local("a")})));
    for (const std::string& text : {std::string(), std::string("{}\n"), std::string("paid"), good.substr(0, 20),
                                    good.substr(0, good.find(char{10})), "x" + good})
        EXPECT_FALSE(from_stored(text)) << text;
    std::string newer = good;
    newer.replace(newer.find("workflow/1"), 10, "workflow/2");
    EXPECT_FALSE(from_stored(newer));
}

TEST(Journal, TheLatestVersionCountsAndTheInputOfTheStart) {
    Journal first = fresh_journal(order(1, {local("a")}));
    first.payload = "input";
    const Journal second = fresh_journal(order(2, {local("a"), local("b")}));
    const auto found = journal_of(std::vector<Checkpoint>{
        {"start", to_stored(first)}, {"begun a", ""}, {"version 2", to_stored(second)}, {"begun b", ""}});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->version, 2U);
    EXPECT_EQ(found->payload, "input");
    EXPECT_FALSE(journal_of(std::vector<Checkpoint>{}));
    EXPECT_FALSE(journal_of(std::vector<Checkpoint>{{"start", "what a newer program wrote"}}));
}

TEST(Journal, ADefinitionWithOtherStepsIsRefusedAndSaysWhy) {
    const Journal begun = fresh_journal(order(1, {local("a"), external("b")}));
    struct Row {
        Definition definition;
        std::string_view why;
    };
    for (const Row& row : {
             Row{order(1, {external("b"), local("a")}), "Then: a (local), b (external). Now: b (external), a (local)"},
             Row{order(1, {local("a"), external("c")}), "has other steps"},
             Row{order(1, {local("a"), local("b")}), "has other steps"},
             Row{order(1, {local("a")}), "has other steps"},
             Row{order(2, {local("a"), external("b")}), "does not say in `continues`"},
             Row{order(2, {local("a"), external("c")}, {{1, {}, {}}}), "had a step b"},
             Row{order(2, {local("a"), local("b")}, {{1, {}, {}}}), "was external in version 1"},
             Row{order(2, {local("a"), external("b")}, {{1, {{"a", "b"}}, {}}}), "was local in version 1"},
         }) {
        const auto adopted = adopt(row.definition, begun);
        ASSERT_FALSE(adopted) << row.why;
        EXPECT_THAT(adopted.failure().message, HasSubstr(row.why));
    }
}

TEST(Journal, TwoStepsDoNotBecomeOne) {
    const Journal begun = fresh_journal(order(1, {local("a"), local("b")}));
    for (const auto& renamed : {std::map<std::string, std::string>{{"a", "b"}}, {{"a", "c"}, {"b", "c"}}}) {
        const auto adopted = adopt(order(2, {local("b"), local("c")}, {{1, renamed, {}}}), begun);
        ASSERT_FALSE(adopted);
        EXPECT_THAT(adopted.failure().message, HasSubstr("two steps of version 1"));
    }
}

TEST(Journal, AContinuedRunKeepsTheKeysOfItsSteps) {
    Journal begun = fresh_journal(order(1, {local("a"), external("b"), local("fax")}));
    begun.payload = "input";
    const auto second =
        adopt(order(2, {external("bee"), local("a"), local("new")}, {{1, {{"b", "bee"}}, {"fax"}}}), begun);
    ASSERT_TRUE(second) << second.failure().message;
    EXPECT_EQ(keys(*second), (std::vector<std::string>{"b", "a", "new v2"}));
    EXPECT_EQ(second->payload, "input");
    // Through another version; and a new step that is called as an old one was keyed does not take over its key.
    const auto third =
        adopt(order(3, {external("c"), local("a"), local("new"), local("b")}, {{2, {{"bee", "c"}}, {}}}), *second);
    ASSERT_TRUE(third) << third.failure().message;
    EXPECT_EQ(keys(*third), (std::vector<std::string>{"b", "a", "new v2", "b v3"}));
    // Nor does one that is called as a step was that has been dropped in between.
    const auto fourth =
        adopt(order(4, {external("c"), local("a"), local("new"), local("b"), local("fax")}, {{3, {}, {}}}), *third);
    ASSERT_TRUE(fourth) << fourth.failure().message;
    EXPECT_EQ(keys(*fourth).back(), "fax v4");
}

}  // namespace
}  // namespace semel::effects
