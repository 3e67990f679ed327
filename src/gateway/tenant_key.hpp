// The key of the hash that makes a tenant of a credential (tenant.hpp). It is random, made at the first start, and lives in
// the ledger as the outcome of operations of its own, wrapped by tenant.secret: so a secret can be replaced without making
// every tenant a new one, and an instance with another secret refuses to start instead of doing so quietly.
//
// The operations are those of the scope `~semel/tenant-key`. No request can be in it: the tenant of a route is 32 hex
// digits, a provider's name that does not begin with '~', or empty. Identity and outcome are kept for ever. Bytes: docs/formats/tenant.md.
//
//   key `first`          settled once per store, with the hash key in plain (no secret then) or wrapped by that secret
//   key `secret-<id>`    settled once per secret that was ever the first in the list, with the hash key wrapped by it
//
// A start with secrets s1, s2, … looks for a record of one of them, then at `first`, which it claims if it is absent; with
// the hash key at hand it adds a record of s1 if there is none. What a crash leaves after each step:
//
//   claimed `first`                  nothing was settled, so no tenant was made: the next start takes over (on_unknown:
//                                    resume; nothing happens outside of the ledger) and mints another key
//   settled `first`                  the key is there, wrapped by s1: the next start with s1 reads it and goes on
//   claimed `secret-<id of s1>`      the next start finds the key where this one did, and takes over
//   settled `secret-<id of s1>`      done
//
// A secret is only ever added. One that leaked still opens the record it wrapped, for whoever has the store; the same
// holds for a store that was first used without a secret, in which `first` stays plain.
#pragma once

#include <string>
#include <vector>

#include "base/random.hpp"
#include "gateway/crypto.hpp"
#include "semel/committer.hpp"
#include "semel/result.hpp"

namespace semel::gateway {

/// How long a start waits for another one that is just making the key.
inline constexpr Duration tenant_key_wait_max = std::chrono::seconds{30};

/// Finds or makes the hash key of this store. Blocks; for start-up. `secrets` is Tenant::secrets: the first is the one in
/// use, the others are what it may have been before. When it returns, the key is durable and opens with the first
/// secret alone. Instances that start at once get the same key.
///   invalid      none of the secrets is one this store was used with, or there is none now and there was at first
///   corrupt      what is stored under one of these keys is not a wrapped key
///   unavailable  another instance holds the operation for tenant_key_wait_max; and as the store says
Result<Key32> tenant_key(Committer& committer, const std::vector<std::string>& secrets, Random& random);
Result<Key32> tenant_key(Committer& committer, const std::vector<std::string>& secrets);

}  // namespace semel::gateway
