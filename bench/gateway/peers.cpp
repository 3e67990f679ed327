#include "gateway/peers.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "gateway/load.hpp"

namespace semel::bench {
namespace {

constexpr std::string_view node = "bench/peers/node";
constexpr std::string_view python = "bench/peers/python";
constexpr std::string_view python_programs = "build/peers/python/bin";

void need(const std::string& path) {
    if (!std::filesystem::exists(path))
        give_up(fmt::format("{} is not there: `./dev bench gateway --peers` installs it", path));
}

/// The port is open before the workers answer there, and their first requests are slow.
Server warmed_up(Server server, const std::string& what) {
    HttpLoad load;
    load.port = server.port;
    load.keys = Keys::fresh;
    load.length = std::chrono::duration<double>(1);
    for (int i = 0; i < 20; ++i)
        if (run_http(load).per_second > static_cast<double>(load.connections)) return server;
    give_up(fmt::format("{} does not answer", what));
}

}  // namespace

std::string url_of(const Server& redis) { return fmt::format("redis://127.0.0.1:{}", redis.port); }

Server start_redis(const TemporaryFolder& folder) {
    const std::uint16_t port = free_port();
    return start_server(
        "redis-server", port,
        {"redis-server", "--bind", "127.0.0.1", "--port", fmt::format("{}", port), "--dir", folder.file(""),
         "--logfile", folder.file("redis.log"), "--save", "", "--appendonly", "yes", "--appendfsync", "always"});
}

Server start_node_peer(const std::string& url) {
    need(fmt::format("{}/node_modules", node));
    const std::uint16_t port = free_port();
    return warmed_up(start_server("node", port,
                                  {"env", "NODE_ENV=production", "node", fmt::format("{}/server.js", node),
                                   fmt::format("{}", port), url}),
                     "node");
}

Server start_python_peer(const Server& redis) {
    const std::string uvicorn = fmt::format("{}/uvicorn", python_programs);
    need(uvicorn);
    const std::uint16_t port = free_port();
    return warmed_up(
        start_server("uvicorn", port,
                     {"env", "PYTHONDONTWRITEBYTECODE=1", "REDIS_URL=" + url_of(redis), uvicorn, "--app-dir",
                      std::string(python), "--host", "127.0.0.1", "--port", fmt::format("{}", port), "--workers", "2",
                      "--no-access-log", "--log-level", "warning", "server:app"}),
        "uvicorn");
}

}  // namespace semel::bench
