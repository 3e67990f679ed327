#include "provider.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <fstream>
#include <stdexcept>

namespace semel::test {

std::map<std::string, int> ChargeBook::charges() const {
    std::map<std::string, int> found;
    std::ifstream file(folder_ / "charges");
    for (std::string line; std::getline(file, line);) ++found[line];
    return found;
}

bool ChargeBook::charged(const std::string& key) const { return charges().contains(key); }

std::string ChargeBook::charge(const std::string& key) const {
    const int book = open((folder_ / "charges").c_str(), O_CREAT | O_APPEND | O_WRONLY | O_CLOEXEC, 0600);
    if (book < 0 || flock(book, LOCK_EX) != 0) throw std::runtime_error("cannot open the book of charges");
    const std::string line = key + "\n";
    const bool seen = honours_ == Honours::keys && charged(key);
    const bool written = seen || write(book, line.data(), line.size()) == static_cast<ssize_t>(line.size());
    close(book);
    if (!written) throw std::runtime_error("cannot write into the book of charges");
    return "receipt of " + key;
}

}  // namespace semel::test
