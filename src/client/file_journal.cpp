// A folder of intents. Each is one file, NAME.intent, that is replaced as a whole: written beside it, synced, renamed over it,
// and the folder synced. What a crash leaves:
//
//   while NAME.new is written            the file as it was; NAME.new is written anew by the next run
//   before the rename is on the disk     the file as it was, or the new one: both are whole
//   while NAME.lock is held              the kernel lets go of it; the file is taken by the next run
//
// NAME.lock is removed by whoever lets go of it. Whoever waited for the removed one would hold what nobody else looks at: so a
// lock counts only if it is still the one that the name leads to.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "base/quote.hpp"
#include "client/intent_text.hpp"
#include "http/chars.hpp"
#include "semel/client.hpp"

namespace semel::client {
namespace {

constexpr mode_t private_file = 0600;
constexpr mode_t private_folder = 0700;
/// More than any record: an answer's body is limited to far less.
constexpr std::size_t record_bytes_max = 1U << 30;

Failure failed(std::string_view what, const std::string& path, int error) {
    const Code code = error == ENOSPC || error == EDQUOT ? Code::exhausted : Code::unavailable;
    return {code, fmt::format("journal {}: {}: {}", in_quotes(path), what,
                              std::error_code(error, std::generic_category()).message())};
}

class File {
public:
    explicit File(int descriptor = -1) : descriptor_(descriptor) {}
    File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
    File& operator=(File&& other) noexcept {
        std::swap(descriptor_, other.descriptor_);
        return *this;
    }
    ~File() {
        if (descriptor_ >= 0) close(descriptor_);
    }
    [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }
    [[nodiscard]] int get() const { return descriptor_; }

private:
    int descriptor_;
};

File open_file(const std::string& path, int flags) {
    return File(open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, private_file));
}

/// 0, or what went wrong.
int write_all(int file, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t written = write(file, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return errno;
        bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    return 0;
}

Result<std::string> read_all(int file, const std::string& path) {
    std::string bytes;
    std::array<char, 65536> buffer{};
    while (true) {
        const ssize_t size = read(file, buffer.data(), buffer.size());
        if (size < 0 && errno == EINTR) continue;
        if (size < 0) return failed("it cannot be read", path, errno);
        if (size == 0) return bytes;
        bytes.append(buffer.data(), static_cast<std::size_t>(size));
        if (bytes.size() > record_bytes_max) return Failure{Code::corrupt, "it is larger than any intent"};
    }
}

Status sync_folder(const std::string& folder) {
    const File opened(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!opened.is_open() || fsync(opened.get()) != 0) return failed("the folder cannot be synced", folder, errno);
    return Done{};
}

/// Makes what is missing of it, for its owner only, durably.
Status make_folder(const std::string& folder) {
    const std::size_t slash = folder.find_last_of('/');
    const std::string above = slash == std::string::npos ? "." : slash == 0 ? "/" : folder.substr(0, slash);
    struct stat found {};
    if (stat(folder.c_str(), &found) == 0) {
        if (!S_ISDIR(found.st_mode)) return failed("it is no folder", folder, ENOTDIR);
        // Whoever made it may have died before it was durable. Those who may not read what is above did not make it.
        return access(above.c_str(), R_OK) == 0 ? sync_folder(above) : Done{};
    }
    if (above != folder)
        if (auto made = make_folder(above); !made) return made;
    if (mkdir(folder.c_str(), private_folder) != 0 && errno != EEXIST)
        return failed("the folder cannot be made", folder, errno);
    return sync_folder(above);
}

/// Letters, digits and -._ as they are, anything else as %XX; none that begins with a dot.
Result<std::string> file_name(std::string_view intent) {
    std::string name;
    for (const char c : intent) {
        if (http::is(c, http::unreserved_char) && c != '~' && (c != '.' || !name.empty()))
            name += c;
        else
            name += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
    if (!name.empty() && name.size() <= intent_bytes_max) return name;
    return Failure{
        Code::invalid,
        fmt::format("intent {}: its name must have 1 to {} bytes, where other characters than letters, digits "
                    "and -._ count as three",
                    in_quotes(intent), intent_bytes_max)};
}

/// The lock of one intent.
class Lock {
public:
    /// `contended`: somebody else has it.
    static Result<Lock> take(const std::string& path, std::string_view intent) {
        while (true) {
            File file = open_file(path, O_RDWR | O_CREAT);
            if (!file.is_open()) return failed("it cannot be made", path, errno);
            if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
                if (errno != EWOULDBLOCK) return failed("it cannot be locked", path, errno);
                return Failure{Code::contended,
                               fmt::format("intent {}: another run of it is under way; nothing was sent by this one",
                                           in_quotes(intent))};
            }
            struct stat held {};
            struct stat named {};
            if (fstat(file.get(), &held) == 0 && stat(path.c_str(), &named) == 0 && held.st_ino == named.st_ino &&
                held.st_dev == named.st_dev)
                return Lock(std::move(file), path);
        }
    }
    Lock(Lock&&) noexcept = default;
    Lock& operator=(Lock&&) noexcept = default;
    ~Lock() {
        if (file_.is_open()) unlink(path_.c_str());
    }

private:
    Lock(File file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}
    File file_;
    std::string path_;
};

class HeldFile final : public HeldIntent {
public:
    HeldFile(std::string folder, std::string path, Lock lock, std::optional<IntentRecord> record)
        : folder_(std::move(folder)), path_(std::move(path)), lock_(std::move(lock)), record_(std::move(record)) {}

    [[nodiscard]] const std::optional<IntentRecord>& record() const override { return record_; }

    Status save(const IntentRecord& record) override {
        const std::string beside = path_ + ".new";
        const auto fail = [&](int error) {
            unlink(beside.c_str());
            return failed("it cannot be written", path_, error);
        };
        {
            const File file = open_file(beside, O_WRONLY | O_CREAT | O_TRUNC);
            if (!file.is_open()) return fail(errno);
            if (const int error = write_all(file.get(), to_text(record)); error != 0) return fail(error);
            if (fsync(file.get()) != 0) return fail(errno);
        }
        if (rename(beside.c_str(), path_.c_str()) != 0) return fail(errno);
        return sync_folder(folder_);
    }

private:
    std::string folder_;
    std::string path_;
    Lock lock_;
    std::optional<IntentRecord> record_;
};

class FileJournal final : public Journal {
public:
    explicit FileJournal(std::string folder) : folder_(std::move(folder)) {}

    Result<std::unique_ptr<HeldIntent>> hold(std::string_view intent) override {
        const auto name = file_name(intent);
        if (!name) return name.failure();
        const std::string path = folder_ + '/' + *name + ".intent";
        auto lock = Lock::take(folder_ + '/' + *name + ".lock", intent);
        if (!lock) return lock.failure();
        auto record = read(path);
        if (!record) return record.failure();
        return std::unique_ptr<HeldIntent>(
            std::make_unique<HeldFile>(folder_, path, std::move(*lock), std::move(*record)));
    }

    Result<bool> forget(std::string_view intent) override {
        const auto name = file_name(intent);
        if (!name) return name.failure();
        const std::string path = folder_ + '/' + *name + ".intent";
        const auto lock = Lock::take(folder_ + '/' + *name + ".lock", intent);
        if (!lock) return lock.failure();
        unlink((path + ".new").c_str());
        if (unlink(path.c_str()) != 0) {
            if (errno == ENOENT) return false;
            return failed("it cannot be removed", path, errno);
        }
        if (auto synced = sync_folder(folder_); !synced) return synced.failure();
        return true;
    }

private:
    static Result<std::optional<IntentRecord>> read(const std::string& path) {
        const File file = open_file(path, O_RDONLY);
        if (!file.is_open()) {
            if (errno == ENOENT) return std::optional<IntentRecord>();
            return failed("it cannot be opened", path, errno);
        }
        const auto text = read_all(file.get(), path);
        auto record = text ? intent_from_text(*text) : Result<IntentRecord>(text.failure());
        if (record) return std::optional<IntentRecord>(std::move(*record));
        if (record.failure().code != Code::corrupt) return record.failure();
        return Failure{Code::corrupt,
                       fmt::format("journal {}: {}; which key was used is not known, and nothing was sent. Restore it, "
                                   "or find out what was done before it is forgotten",
                                   in_quotes(path), record.failure().message)};
    }

    std::string folder_;
};

}  // namespace

Result<std::unique_ptr<Journal>> file_journal(std::string folder) {
    while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
    if (folder.empty()) return Failure{Code::invalid, "journal: the folder has no name"};
    if (auto made = make_folder(folder); !made) return made.failure();
    return std::unique_ptr<Journal>(std::make_unique<FileJournal>(std::move(folder)));
}

}  // namespace semel::client
