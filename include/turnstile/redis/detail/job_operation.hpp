// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_DETAIL_JOB_OPERATION_HPP
#define TURNSTILE_REDIS_DETAIL_JOB_OPERATION_HPP

namespace turnstile::redis::detail {

/// The scripts of job queues.
enum class job_operation
{
    push,
    next,
    end,
    cancel,
    renew,
    fetch,
    resync,
    manage,
    list,
};

/// How an attempt of a job ends.
enum class attempt_end
{
    finished,
    failed,
    /// Without a result; it counts.
    abandoned,
    /// Its worker has not received it, so it does not count.
    uncounted,
    /// Failed, and the job is a dead letter at once.
    buried,
};

}  // namespace turnstile::redis::detail

#endif
