// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_JOB_RECORD_HPP
#define TURNSTILE_DETAIL_JOB_RECORD_HPP

#include <cstddef>
#include <string>
#include <turnstile/job.hpp>
#include <turnstile/push_options.hpp>
#include <utility>

namespace turnstile::detail {

/// A job of a local queue. Only the payload and the id may be read without the queue's lock.
template <class T>
struct job_record
{
    job_record(T what, push_options how)
        : payload(std::move(what))
        , options(std::move(how))
    {
    }

    const T payload;
    const push_options options;
    job_id id = 0;
    job_state state = job_state::waiting;
    std::ptrdiff_t attempt = 0;
    double progress = 0;
    job_failure failure = job_failure::none;
    std::string error;
};

}  // namespace turnstile::detail

#endif
