// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_DETAIL_DIRECTORY_HPP
#define TURNSTILE_REDIS_DETAIL_DIRECTORY_HPP

#include <boost/asio/any_io_executor.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <turnstile/error.hpp>
#include <turnstile/redis/detail/erased_handler.hpp>
#include <turnstile/redis/detail/permit_grant.hpp>
#include <turnstile/redis/listed_semaphore.hpp>
#include <utility>

// The operations of a directory of semaphores.

namespace turnstile::redis::detail {

/// A directory of a session.
class directory_handle;

enum class directory_operation
{
    create,
    remove,
    read,
    add,
    take,
    keep,
    renew,
    release,
    free,
    list,
    detail,
};

/// The arguments of an operation. Not an aggregate, because GCC 12 miscompiles temporary aggregates in a `co_await`.
struct directory_call
{
    directory_call(directory_operation operation, std::string semaphore, std::int64_t size = 0,
                   std::string id = {}, listed_permit_options how = {})
        : what(operation)
        , name(std::move(semaphore))
        , number(size)
        , permit(std::move(id))
        , terms(std::move(how))
    {
    }

    directory_operation what;
    /// For a list: the name after which it begins.
    std::string name;
    /// The units, or the limit of a list.
    std::int64_t number;
    /// The id of a permit; to free it, its fencing token. To add units that were taken for good, their fencing token.
    std::string permit;
    listed_permit_options terms;
};

using directory_answer_handler = erased_handler<void(error_code, semaphore_answer)>;
using directory_page_handler = erased_handler<void(error_code, semaphore_page)>;
using directory_detail_handler = erased_handler<void(error_code, semaphore_detail)>;

void start_call(const std::shared_ptr<directory_handle>& directory, directory_call call,
                directory_answer_handler handler);
void start_call(const std::shared_ptr<directory_handle>& directory, directory_call call,
                directory_page_handler handler);
void start_call(const std::shared_ptr<directory_handle>& directory, directory_call call,
                directory_detail_handler handler);

/// Keeps the units of a session's permit.
void start_keep(const std::shared_ptr<directory_handle>& directory, directory_call call,
                permit_grant units, directory_answer_handler handler);

/// The fallback executor.
[[nodiscard]] boost::asio::any_io_executor executor_of(const directory_handle& directory) noexcept;

}  // namespace turnstile::redis::detail

#endif
