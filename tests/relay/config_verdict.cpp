// config_verdict of the relay's configurations.
#include "../support/config_verdict.hpp"

#include "relay/relay_config.hpp"

int main(int argc, char** argv) {
    return semel::test::config_verdict(argc, argv, semel::relay::relay_config_shapes(), semel::relay::read_relay_config,
                                       nullptr);
}
