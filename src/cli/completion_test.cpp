#include "cli/completion.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

namespace semel::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

/// A tree with one of everything.
CommandInfo sample() {
    CLI::App root("what it is", "semel");
    std::string text;
    bool flag = false;
    CLI::App* const ops = root.add_subcommand("ops", "it's about operations");
    CLI::App* const list = ops->add_subcommand("list", "list: them");
    list->add_option("--state", text, "in a state")->type_name("running|settled");
    list->add_option("-b,--body", text, "a body")->type_name("FILE");
    list->add_flag("--json", flag, "for programs");
    list->add_option("FILE", text, "what")->type_name("");
    root.add_subcommand("secret", "hidden")->group("");
    return describe(root);
}

TEST(CommandTree, HoldsEverythingButWhatIsHidden) {
    const CommandInfo root = sample();
    const auto all = flatten(root);
    ASSERT_EQ(all.size(), 3U);
    EXPECT_EQ(all[2]->path, "semel ops list");
    ASSERT_EQ(all[2]->positionals.size(), 1U);
    EXPECT_EQ(all[2]->positionals[0].value, "FILE");
    ASSERT_EQ(all[2]->options.size(), 4U);
    EXPECT_THAT(all[2]->options[1].choices, testing::ElementsAre("running", "settled"));
    EXPECT_THAT(all[2]->options[2].names, testing::ElementsAre("-b", "--body"));
    EXPECT_EQ(all[2]->options[3].value, "");
}

TEST(Completion, KnowsCommandsOptionsAndChoicesInEveryShell) {
    const CommandInfo root = sample();
    for (const std::string& script : {bash_completion(root), zsh_completion(root), fish_completion(root)}) {
        EXPECT_THAT(script, HasSubstr("semel ops list"));
        EXPECT_THAT(script, HasSubstr("running settled"));
        EXPECT_THAT(script, HasSubstr("json"));
        EXPECT_THAT(script, Not(HasSubstr("secret")));
    }
}

TEST(Completion, DescriptionsCannotBreakAScript) {
    EXPECT_THAT(zsh_completion(sample()), HasSubstr(R"('ops:it'\''s about operations')"));
    EXPECT_THAT(fish_completion(sample()), HasSubstr(R"(-d 'it'\''s about operations')"));
}

}  // namespace
}  // namespace semel::cli
