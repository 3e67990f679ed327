// config_verdict of the gateway's configurations.
#include "../support/config_verdict.hpp"

#include "gateway/config_reader.hpp"

int main(int argc, char** argv) {
    const auto same = [](semel::gateway::Config& left, semel::gateway::Config& right) {
        for (semel::gateway::Config* config : {&left, &right}) {
            config->file.clear();
            for (auto& route : config->routes) route.mark = {};
        }
        return left == right;
    };
    return semel::test::config_verdict(argc, argv, semel::gateway::config_shapes(), semel::gateway::read_config, same);
}
