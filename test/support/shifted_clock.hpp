// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_SHIFTED_CLOCK_HPP
#define TURNSTILE_TEST_SUPPORT_SHIFTED_CLOCK_HPP

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <support/redis_server.hpp>

namespace turnstile::test {

/// A server whose wall clock a test can set.
class shifted_clock
{
public:
    shifted_clock();
    shifted_clock(const shifted_clock&) = delete;
    shifted_clock& operator=(const shifted_clock&) = delete;
    ~shifted_clock();

    [[nodiscard]] redis_server& server() const { return *server_; }

    /// Sets the difference between the server's clock and the real one; a negative value puts it behind.
    void set_ahead(std::chrono::microseconds by);

    /// The difference according to the server's TIME, including the time of its reply.
    [[nodiscard]] std::chrono::seconds ahead() const;

private:
    std::filesystem::path file_;
    std::unique_ptr<redis_server> server_;
    std::int64_t* offset_ = nullptr;
};

}  // namespace turnstile::test

#endif
