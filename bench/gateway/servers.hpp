// What is measured, as processes: nginx as the upstream, nginx as the proxy before it, and semel gateway.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "support/process.hpp"

namespace semel::bench {

std::uint16_t free_port();

/// A child process, ended with SIGTERM when it is destroyed.
class Child {
public:
    explicit Child(std::vector<std::string> command);
    ~Child();
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    /// Processor time of it and of its children that are alive.
    [[nodiscard]] double cpu_seconds() const;
    [[nodiscard]] std::uint64_t resident_bytes() const;
    [[nodiscard]] int pid() const { return pid_; }

private:
    int pid_;
};

struct Server {
    std::uint16_t port = 0;
    std::unique_ptr<Child> child{};
};

/// Runs a command and waits until something listens on the port.
Server start_server(const std::string& what, std::uint16_t port, std::vector<std::string> command);
/// Answers every POST with 201 and a small JSON document.
Server start_upstream(const TemporaryFolder& folder);
/// nginx as a plain proxy with kept connections on both sides and no log.
Server start_nginx_proxy(const TemporaryFolder& folder, std::uint16_t upstream);
/// semel gateway, with the same two settings: connections kept, no line per request in a log.
Server start_gateway(const TemporaryFolder& folder, const std::string& name, const std::string& store,
                     std::uint16_t upstream);
/// Runs a command to its end.
void run_command(std::vector<std::string> command);

}  // namespace semel::bench
