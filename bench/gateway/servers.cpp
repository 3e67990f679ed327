#include "gateway/servers.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace semel::bench {
namespace {

using namespace std::chrono_literals;

sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

void wait_for(std::uint16_t port, const Child& child, const std::string& what) {
    for (int i = 0; i < 3000; ++i) {
        const int handle = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const sockaddr_in address = loopback(port);
        const bool there = ::connect(handle, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
        ::close(handle);
        if (there) return;
        if (::waitpid(child.pid(), nullptr, WNOHANG) != 0) give_up(fmt::format("{} ended at once", what));
        std::this_thread::sleep_for(20ms);
    }
    give_up(fmt::format("{} does not listen on port {}", what, port));
}

std::string write_file(const TemporaryFolder& folder, const std::string& name, const std::string& text) {
    std::string path = folder.file(name);
    std::ofstream(path) << text;
    return path;
}

pid_t spawn(std::vector<std::string> command) {
    std::vector<char*> arguments;
    arguments.reserve(command.size() + 1);
    for (std::string& word : command) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const pid_t pid = ::fork();
    if (pid < 0) give_up("fork failed");
    if (pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // also when the benchmark gives up
        ::execvp(arguments[0], arguments.data());
        ::_exit(127);
    }
    return pid;
}

/// Of one process, from /proc/PID/stat.
double cpu_of(int pid) {
    std::ifstream file(fmt::format("/proc/{}/stat", pid));
    std::string text;
    std::getline(file, text);
    const auto after = text.rfind(')');
    if (after == std::string::npos) return 0;
    std::istringstream fields(text.substr(after + 2));
    std::string skip;
    for (int i = 0; i < 11; ++i) fields >> skip;
    double user = 0;
    double system = 0;
    fields >> user >> system;
    return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

std::vector<int> children_of(int pid) {
    std::ifstream file(fmt::format("/proc/{0}/task/{0}/children", pid));
    std::vector<int> all;
    for (int child = 0; file >> child;) all.push_back(child);
    return all;
}

std::string nginx_config(const TemporaryFolder& folder, int workers, const std::string& http) {
    return fmt::format(
        "daemon off;\nworker_processes {};\npid {};\nerror_log {} crit;\nevents {{ worker_connections 8192; }}\n"
        "http {{\n  access_log off;\n  keepalive_requests 1000000000;\n  keepalive_timeout 1h;\n"
        "  client_body_temp_path {};\n  proxy_temp_path {};\n  fastcgi_temp_path {};\n  uwsgi_temp_path {};\n"
        "  scgi_temp_path {};\n{}}}\n",
        workers, folder.file("nginx.pid"), folder.file("nginx.log"), folder.file("t1"), folder.file("t2"),
        folder.file("t3"), folder.file("t4"), folder.file("t5"), http);
}

std::string semel_program() {
    return (std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "semel").string();
}

}  // namespace

std::uint16_t free_port() {
    const int handle = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    if (::bind(handle, reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
        ::getsockname(handle, reinterpret_cast<sockaddr*>(&address), &size) != 0)
        give_up("no free port");
    ::close(handle);
    return ntohs(address.sin_port);
}

Child::Child(std::vector<std::string> command) : pid_(spawn(std::move(command))) {}

Child::~Child() {
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
}

double Child::cpu_seconds() const {
    double all = cpu_of(pid_);
    for (const int child : children_of(pid_)) all += cpu_of(child);
    return all;
}

std::uint64_t Child::resident_bytes() const {
    std::ifstream file(fmt::format("/proc/{}/statm", pid_));
    std::uint64_t size = 0;
    std::uint64_t resident = 0;
    file >> size >> resident;
    return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

Server start_server(const std::string& what, std::uint16_t port, std::vector<std::string> command) {
    Server server{.port = port, .child = std::make_unique<Child>(std::move(command))};
    wait_for(port, *server.child, what);
    return server;
}

Server start_upstream(const TemporaryFolder& folder) {
    const std::uint16_t port = free_port();
    const std::string config = nginx_config(
        folder, 1,
        fmt::format(
            "  server {{ listen 127.0.0.1:{}; location / {{ default_type application/json; return 201 "
            "'{{\"id\":\"ch_1234567890\",\"amount\":1999,\"currency\":\"eur\",\"status\":\"succeeded\"}}'; }} }}\n",
            port));
    return start_server("nginx as the upstream", port,
                        {"nginx", "-c", write_file(folder, "upstream.conf", config), "-p", folder.file("")});
}

Server start_nginx_proxy(const TemporaryFolder& folder, std::uint16_t upstream) {
    const std::uint16_t port = free_port();
    const std::string config = nginx_config(
        folder, 2,
        fmt::format(
            "  upstream up {{ server 127.0.0.1:{}; keepalive 128; keepalive_requests 1000000000; }}\n"
            "  server {{ listen 127.0.0.1:{} reuseport; location / {{ proxy_pass http://up; proxy_http_version 1.1; "
            "proxy_set_header Connection \"\"; proxy_set_header Host $http_host; "
            "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; }} }}\n",
            upstream, port));
    return start_server("nginx as the proxy", port,
                        {"nginx", "-c", write_file(folder, "proxy.conf", config), "-p", folder.file("")});
}

Server start_gateway(const TemporaryFolder& folder, const std::string& name, const std::string& store,
                     std::uint16_t upstream) {
    const std::uint16_t port = free_port();
    const std::string config = write_file(
        folder, name + ".yaml",
        fmt::format(
            "store: {}\nlisten: 127.0.0.1:{}\nupstream: {{ servers: [http://127.0.0.1:{}], idle_connections_max: 128 "
            "}}\ntenant: {{ header: Authorization }}\nlog: {{ level: error }}\n"
            "routes:\n  - {{ name: payments, match: POST /v1/payments }}\n",
            store, port, upstream));
    return start_server("semel gateway", port, {semel_program(), "gateway", "--config", config});
}

void run_command(std::vector<std::string> command) {
    const std::string what = command[0] + " " + command[1];
    const pid_t pid = spawn(std::move(command));
    int status = 0;
    ::waitpid(pid, &status, 0);
    if (status != 0) give_up(fmt::format("{} failed", what));
}

}  // namespace semel::bench
