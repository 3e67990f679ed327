#include "async/terms.hpp"

namespace semel {

Result<Terms> terms_of(Store& store, const OperationId& id, const Claimed& claimed, const Policy& asked) {
    if (claimed.tries == 1) return Terms{asked.lease, asked.effect_deadline};
    auto record = store.find(id);
    if (!record) return record.failure();
    if (!*record || (*record)->token != claimed.token)
        return Failure{Code::unavailable, "it was taken over before it could begin"};
    return Terms{(*record)->policy.lease, (*record)->policy.effect_deadline};
}

}  // namespace semel
