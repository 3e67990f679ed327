// SEMEL_MUTATION(name, right, wrong): `right`, except in a build that breaks the rule `name` on purpose.
//
// tests/enumerate compiles rules.cpp with SEMEL_MUTANTS and picks one mutation at run time, so that one build shows that
// every rule has a test that notices its absence.
#pragma once

#ifdef SEMEL_MUTANTS
#include <string_view>
namespace semel {
/// The mutation switched on; empty: none. Set once, before any decision.
extern std::string_view active_mutation;
}  // namespace semel
#define SEMEL_MUTATION(name, right, wrong) (::semel::active_mutation == #name ? (wrong) : (right))
#else
#define SEMEL_MUTATION(name, right, wrong) (right)
#endif
