#include "gateway/config.hpp"

namespace semel::gateway {
KeyUse Route::key_for(std::string_view method) const {
    return key_of_post_and_patch && method != "POST" && method != "PATCH" ? KeyUse::ignored : key;
}

}  // namespace semel::gateway
