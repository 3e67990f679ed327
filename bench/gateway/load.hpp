// The load generator: keep-alive connections from one thread, each with one request on its way at any time. Cheap, so that
// most of the machine is left to what is measured.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "support/figures.hpp"

namespace semel::bench {

enum class Keys : std::uint8_t {
    none,   ///< the same request without a key
    fresh,  ///< a new key each time
    known,  ///< a few keys again and again
};

struct HttpLoad {
    std::uint16_t port = 0;
    std::string method = "POST";
    std::string path = "/v1/payments";
    std::string body = R"({"amount":1999,"currency":"eur","customer":"cus_12345","description":"one order"})";
    Keys keys = Keys::none;
    std::size_t connections = 64;
    std::size_t known_keys = 1000;
    double rate = 0;  ///< requests per second, evenly spaced; 0: as many as it takes
    int status = 201;
    std::chrono::duration<double> warm_up{0.5};
    std::chrono::duration<double> length{2};
    std::function<double()> cpu_seconds{};  ///< of what is measured; asked at the start and at the end
};

/// Ends the program when an answer has another status, or a connection is lost. `micros` are the requests' times; with a
/// rate they count from the moment the request was due, so that waiting in line is not left out.
Run run_http(const HttpLoad& load);

/// Opens connections, has one request answered on each, and leaves them idle until it is destroyed.
class IdleConnections {
public:
    IdleConnections(std::uint16_t port, std::size_t count);
    ~IdleConnections();
    IdleConnections(const IdleConnections&) = delete;
    IdleConnections& operator=(const IdleConnections&) = delete;

private:
    std::vector<int> sockets_;
};

}  // namespace semel::bench
