// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SERVICE_REDIS_STORE_HPP
#define TURNSTILE_SERVICE_REDIS_STORE_HPP

#include "service/store.hpp"

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <turnstile/redis/async_semaphore.hpp>
#include <turnstile/redis/semaphore_directory.hpp>
#include <turnstile/redis/session.hpp>

namespace turnstile::service {

/**
 * @brief The semaphores of all servers that use one Redis server: a @ref redis::semaphore_directory.
 *
 * Permits survive this process. A waiter belongs to this process, and so does its grant until it becomes a
 * permit or is taken for good.
 *
 * @par Thread safety
 * Unsafe: everything runs on the context. The session has its own thread, so a busy context loses no grant.
 */
class redis_store final : public store
{
public:
    /// Starts to connect. @throws redis::redis_error if the URL is not valid.
    redis_store(boost::asio::io_context& context, const std::string& url, std::size_t max_waiters);

    [[nodiscard]] bool is_shared() const override { return true; }
    awaitable<result> create(std::string_view name, std::int64_t value) override;
    awaitable<result> remove(std::string_view name) override;
    awaitable<result> value(std::string_view name) override;
    awaitable<result> up(std::string_view name, std::int64_t units) override;
    awaitable<result> release(std::string_view name, const std::string& permit) override;
    awaitable<result> renew(std::string_view name, const std::string& permit,
                            std::optional<std::chrono::milliseconds> lease) override;
    awaitable<result> free(std::string_view name, std::uint64_t token) override;
    awaitable<grant> try_down(std::string_view name, const down_request& wanted) override;
    awaitable<grant> down(std::string_view name, const down_request& wanted) override;
    awaitable<listed_page> list(std::string_view after, std::size_t limit) override;
    awaitable<detailed> detail(std::string_view name, std::size_t limit) override;
    awaitable<result> check() override;
    awaitable<store_metrics> metrics() override;
    void close() override;

private:
    awaitable<grant> keep(std::string_view name, const down_request& wanted,
                          redis::async_semaphore::permit_type units,
                          std::chrono::milliseconds waited);
    awaitable<grant> end_wait(std::string_view name, const down_request& wanted, error_code error,
                              std::chrono::milliseconds waited);
    awaitable<void> report_waiter(std::string name, std::int64_t units);
    awaitable<bool> undo(redis::semaphore_answer granted);
    [[nodiscard]] result publish_result(error_code error, const redis::semaphore_answer& answer,
                                        happening what, std::string_view reason = {}) const;
    grant make_grant(redis::semaphore_answer answer, redis::lease_clock::time_point begin,
                     std::chrono::milliseconds waited = {});
    void publish(happening what, const redis::semaphore_answer& answer,
                 std::chrono::milliseconds waited = {}, std::string_view reason = {}) const;

    executor executor_;
    std::size_t max_waiters_;
    bool closing_ = false;
    redis::session session_;
    redis::semaphore_directory directory_;
    /// The semaphore of each waiter.
    std::list<std::shared_ptr<redis::async_semaphore>> waited_for_;
    store_metrics counts_;
};

}  // namespace turnstile::service

#endif
