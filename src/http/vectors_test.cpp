// Every vector of tests/http/vectors, read whole and in pieces.
#include <gtest/gtest.h>

#include <set>

#include "http/body.hpp"
#include "http/request.hpp"
#include "http/response.hpp"
#include "http/test_vectors.hpp"

namespace semel::http {
namespace {

using test::read_vectors;
using test::Vector;

std::string vectors_path(std::string_view file) { return std::string(SEMEL_HTTP_VECTORS) + "/" + std::string(file); }

// What was read, in the words of the vectors.
class Transcript {
public:
    void refused(Fault fault) {
        text_ += "=> refused " + std::string(name(fault)) + " " + std::to_string(status(fault)) + "\n";
    }
    void message(std::string first, const Fields& fields) {
        text_ += "=> " + first + "\n";
        for (const Field& field : fields) {
            text_ += "field " + std::string(field.name) + ":";
            text_ += (field.value.empty() ? "" : " ") + std::string(field.value) + "\n";
        }
    }
    void body(const std::string& data) {
        if (!data.empty()) text_ += "body " + data + "\n";
    }
    [[nodiscard]] const std::string& text() const { return text_; }

private:
    std::string text_;
};

// A connection on which heads and bodies follow each other.
template <class Reader>
class Connection {
public:
    explicit Connection(Reader reader) : reader_(std::move(reader)) {}

    void feed(std::string_view bytes) {
        bool again = true;
        while (!over_ && again) {
            const std::size_t before = bytes.size();
            const bool was_in_body = in_body_;
            if (in_body_) {
                const BodyStep step = body_.feed(bytes);
                bytes.remove_prefix(step.used);
                data_ += step.data;
                after_body(step.progress);
            } else {
                const Step step = reader_.feed(bytes);
                bytes.remove_prefix(step.used);
                after_head(step.progress);
            }
            again = bytes.size() < before || was_in_body != in_body_;
            if (bytes.empty() && !in_body_) again = false;
        }
    }

    // The verdict once the peer has closed.
    std::string close() {
        if (over_) return transcript_.text();
        if (in_body_) {
            after_body(body_.close());
        } else if (reader_.head_bytes() > 0 || interim_) {
            transcript_.refused(Fault::body_cut_short);
        }
        return transcript_.text();
    }

private:
    void after_head(Progress progress) {
        if (progress == Progress::more) return;
        if (progress == Progress::refused) {
            over_ = true;
            return transcript_.refused(reader_.fault());
        }
        transcript_.message(first_line(reader_.head()), reader_.head().fields);
        body_.start(reader_.head().framing);
        data_.clear();
        in_body_ = true;
        after_body(body_.progress());
    }

    void after_body(Progress progress) {
        if (progress == Progress::more) return;
        if (progress == Progress::refused) {
            over_ = true;
            return transcript_.refused(body_.fault());
        }
        transcript_.body(data_);
        in_body_ = false;
        reader_.reset();
    }

    std::string first_line(const RequestHead& head) {
        return std::string(head.method_text) + " " + std::string(head.target_text);
    }
    std::string first_line(const ResponseHead& head) {
        interim_ = head.interim();
        const std::string reason = head.reason.empty() ? "" : " " + std::string(head.reason);
        return (interim_ ? "interim " : "") + std::to_string(head.status) + reason;
    }

    Reader reader_;
    BodyReader body_;
    Transcript transcript_;
    std::string data_;
    bool in_body_ = false;
    bool interim_ = false;
    bool over_ = false;
};

RequestReader reader_for(const Vector&, RequestReader*) { return RequestReader(); }
ResponseReader reader_for(const Vector& vector, ResponseReader*) {
    return ResponseReader(method_of(vector.request_method));
}

template <class Reader>
std::string read_whole(const Vector& vector) {
    Connection<Reader> connection(reader_for(vector, static_cast<Reader*>(nullptr)));
    connection.feed(vector.bytes);
    return connection.close();
}

template <class Reader>
std::string read_split(const Vector& vector, std::size_t at) {
    Connection<Reader> connection(reader_for(vector, static_cast<Reader*>(nullptr)));
    connection.feed(std::string_view(vector.bytes).substr(0, at));
    connection.feed(std::string_view(vector.bytes).substr(at));
    return connection.close();
}

// Every piece in a buffer of its own and of its size, so that reading on past it does not go unnoticed.
template <class Reader>
std::string read_byte_by_byte(const Vector& vector) {
    Connection<Reader> connection(reader_for(vector, static_cast<Reader*>(nullptr)));
    for (const char c : vector.bytes) {
        const std::vector<char> piece{c};
        connection.feed({piece.data(), 1});
    }
    return connection.close();
}

std::string last_line(const std::string& text) {
    const auto end = text.rfind('\n', text.size() - 2);
    return end == std::string::npos ? text : text.substr(end + 1);
}

template <class Reader>
void check(const Vector& vector) {
    SCOPED_TRACE(vector.name);
    const std::string whole = read_whole<Reader>(vector);
    EXPECT_EQ(vector.refused() ? last_line(whole) : whole, vector.expected);
    EXPECT_EQ(read_byte_by_byte<Reader>(vector), whole);
    // At every byte; of the oversized ones at every 97th, and at every one near both ends.
    const std::size_t size = vector.bytes.size();
    for (std::size_t at = 1; at < size; at += (size < 1500 || at < 200 || at + 200 > size) ? 1 : 97)
        ASSERT_EQ(read_split<Reader>(vector, at), whole) << "split at " << at;
}

template <class Reader>
void check_file(std::string_view file, bool refused, std::size_t floor) {
    const auto vectors = read_vectors(vectors_path(file));
    EXPECT_GE(vectors.size(), floor);
    std::set<std::string> names;
    for (const Vector& vector : vectors) {
        EXPECT_TRUE(names.insert(vector.name).second) << "twice: " << vector.name;
        EXPECT_EQ(vector.refused(), refused) << vector.name;
        check<Reader>(vector);
    }
}

TEST(HttpVectors, HostileRequestsAreRefusedHoweverTheyArrive) {
    check_file<RequestReader>("hostile_requests.txt", true, 250);
}

TEST(HttpVectors, OddButLegalRequestsAreReadExactly) { check_file<RequestReader>("legal_requests.txt", false, 60); }

TEST(HttpVectors, HostileResponsesAreRefusedHoweverTheyArrive) {
    check_file<ResponseReader>("hostile_responses.txt", true, 48);
}

TEST(HttpVectors, LegalResponsesAreReadExactly) { check_file<ResponseReader>("legal_responses.txt", false, 17); }

// A fault that no vector and no test of its limit shows would be a rule nobody has seen at work.
TEST(HttpVectors, ShowEveryFaultThatBytesAloneCanHave) {
    std::string seen;
    for (const auto* file : {"hostile_requests.txt", "hostile_responses.txt"})
        for (const Vector& vector : read_vectors(vectors_path(file))) seen += vector.expected;
    for (int i = 1; i < faults; ++i) {
        const auto fault = static_cast<Fault>(i);
        const bool elsewhere = fault == Fault::trailers_refused || fault == Fault::value_not_writable ||
                               fault == Fault::field_not_writable;
        EXPECT_TRUE(seen.find(" " + std::string(name(fault)) + " ") != std::string::npos || elsewhere) << name(fault);
    }
}

}  // namespace
}  // namespace semel::http
