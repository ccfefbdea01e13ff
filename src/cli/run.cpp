// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <csignal>
#include <exception>
#include <fmt/format.h>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <sys/resource.h>
#include <system_error>
#include <turnstile/error.hpp>
#include <turnstile/event.hpp>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/async_semaphore.hpp>
#include <turnstile/redis/session.hpp>
#include <turnstile/redis/shared_mutex.hpp>
#include <utility>

#include "cli/commands.hpp"
#include "cli/program.hpp"
#include "cli/report.hpp"
#include "cli/signals.hpp"

namespace turnstile::cli {

namespace {

namespace asio = boost::asio;
using task = asio::awaitable<void>;

/// Acquires the lock, runs the program, and releases the lock. On one thread.
class runner
{
public:
    runner(const redis::config& settings, const run_options& options)
        : options_(options)
        , signals_(context_.get_executor(),
                   [this](const signalfd_siginfo& signal) { received(signal); })
        , session_(context_, settings)
        , has_ended_(context_)
        , kill_timer_(context_)
        , leave_timer_(context_)
    {
    }

    int run()
    {
        asio::co_spawn(context_, use_session(),
                       asio::bind_cancellation_slot(cancel_.slot(),
                                                    [this](const std::exception_ptr& error)
                                                    {
                                                        failure_ = error;
                                                        context_.stop();
                                                    }));
        context_.run();
        if (interrupted_ != 0)
            return status_of_signal(interrupted_);
        if (failure_)
            std::rethrow_exception(failure_);
        return result_;
    }

    /// The signal by which this process has to end, if any.
    [[nodiscard]] int signal() const noexcept
    {
        if (interrupted_ != 0 || !program_ || result_ == lock_lost)
            return interrupted_;
        // A shell ends a script at Ctrl-C only if a signal has ended the command.
        const int ended = program_->signal();
        return ended == SIGINT || ended == SIGTERM || ended == SIGHUP || ended == SIGQUIT ? ended
                                                                                          : 0;
    }

private:
    task use_session()
    {
        std::exception_ptr failure;
        try
        {
            co_await acquire();
        }
        catch (...)
        {
            failure = std::current_exception();
        }
        // The waiter leaves the queue before the process ends.
        co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
        co_await session_.async_close(asio::as_tuple);
        if (failure)
            std::rethrow_exception(failure);
    }

    task acquire()
    {
        const auto limit = options_.time_limit.value_or(std::chrono::milliseconds::max());
        const std::string& name = options_.object.name;
        if (options_.object.kind == object_kind::semaphore)
        {
            redis::async_semaphore semaphore(session_, name, options_.capacity);
            co_await run_with(co_await semaphore.async_try_acquire_for(options_.units, limit));
        }
        else if (options_.object.kind == object_kind::mutex)
        {
            redis::async_mutex mutex(session_, name);
            co_await run_with(co_await mutex.async_try_lock_for(limit));
        }
        else
        {
            redis::shared_mutex mutex(session_, name);
            if (options_.is_shared)
                co_await run_with(co_await mutex.async_try_lock_shared_for(limit));
            else
                co_await run_with(co_await mutex.async_try_lock_for(limit));
        }
    }

    /// Runs the program with a guard or permit, if there is one.
    template <class Owned>
    task run_with(std::optional<Owned> owned)
    {
        // From now on, a signal is for the program, or interrupts the release.
        co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
        is_waiting_ = false;
        if (!owned)
        {
            const auto limit = options_.time_limit.value_or(std::chrono::milliseconds::zero());
            report(fmt::format("'{}' was not granted within {} ms", options_.object.name,
                               limit.count()));
            result_ = timed_out;
            co_return;
        }
        if (start(owned->fencing_token()))
        {
            owned->lost().assign([this](asio::cancellation_type) { lose(); });
            co_await has_ended_.async_wait();
            owned->lost().clear();
            result_ = is_lost_ ? int(lock_lost) : program_->status().value_or(failed);
            if (is_lost_)
                program_->kill_rest();
        }
        try
        {
            if constexpr (requires { owned->async_unlock(); })
                co_await owned->async_unlock();
            else
                co_await owned->async_release();
        }
        catch (const system_error& error)
        {
            // lose() has reported a loss while the program ran.
            if (is_lost_)
                co_return;
            if (error.code() == errc::lost && program_)
                result_ = lock_lost;
            report(error.what());
        }
    }

    /// Starts the program. Returns false if it cannot be started.
    bool start(std::uint64_t token)
    {
        try
        {
            program_ = std::make_unique<program>(
                options_.command,
                std::vector{"TURNSTILE_LOCK=" + options_.object.name,
                            "TURNSTILE_FENCING_TOKEN=" + std::to_string(token)},
                descriptors_, signals_.former());
            return true;
        }
        catch (const std::system_error& error)
        {
            report(fmt::format("cannot run '{}': {}", options_.command[0], error.code().message()));
            result_ =
                error.code() == std::errc::no_such_file_or_directory ? not_found : cannot_execute;
            return false;
        }
    }

    /// Ends the program, because another one may have the lock soon.
    void lose()
    {
        is_lost_ = true;
        report(fmt::format("'{}' was lost, so '{}' is terminated", options_.object.name,
                           options_.command[0]));
        program_->send(SIGTERM);
        // A stopped program handles no signal.
        program_->send(SIGCONT);
        kill_timer_.expires_after(options_.kill_after);
        kill_timer_.async_wait(
            [this](const error_code& error)
            {
                if (!error)
                    program_->send(SIGKILL);
            });
    }

    void received(const signalfd_siginfo& signal)
    {
        const int number = static_cast<int>(signal.ssi_signo);
        if (number == SIGCHLD)
        {
            if (program_ && program_->status())
                has_ended_.set();
        }
        else if (program_ && !program_->status())
        {
            // The kernel sends Ctrl-C to the program, too, unless it has its own group. It reports a closed terminal
            // only to the first process of the session.
            if (signal.ssi_code <= 0 || number == SIGHUP || program_->has_own_group())
                program_->send(number);
        }
        else
            leave_soon(number);
    }

    /// Ends the wait for the lock. A release, or a server that does not answer, has little time left: without this
    /// process, the lock ends with its lease.
    void leave_soon(int signal)
    {
        // The time does not begin again with each signal.
        if (std::exchange(is_leaving_, true))
            return;
        if (is_waiting_)
        {
            interrupted_ = signal;
            cancel_.emit(asio::cancellation_type::terminal);
        }
        leave_timer_.expires_after(std::chrono::seconds(2));
        leave_timer_.async_wait(
            [this, signal](const error_code& error)
            {
                if (error)
                    return;
                interrupted_ = signal;
                context_.stop();
            });
    }

    run_options options_;
    // Before this process opens files of its own.
    const std::set<int> descriptors_ = inheritable_descriptors();
    asio::io_context context_{1};
    // Before the resolver of the session starts a thread, which would receive signals.
    signals signals_;
    redis::session session_;
    asio::cancellation_signal cancel_;
    std::unique_ptr<program> program_;
    event has_ended_;
    asio::steady_timer kill_timer_;
    asio::steady_timer leave_timer_;
    bool is_waiting_ = true;
    bool is_leaving_ = false;
    bool is_lost_ = false;
    int interrupted_ = 0;
    int result_ = failed;
    std::exception_ptr failure_;
};

/// Ends this process by a signal, without a memory dump.
void end_by(int signal)
{
    const rlimit none{};
    ::setrlimit(RLIMIT_CORE, &none);
    std::signal(signal, SIG_DFL);
    sigset_t unblocked;
    sigemptyset(&unblocked);
    sigaddset(&unblocked, signal);
    ::pthread_sigmask(SIG_UNBLOCK, &unblocked, nullptr);
    std::raise(signal);
}

}  // namespace

int run(const redis::config& settings, const run_options& options)
{
    runner all(settings, options);
    const int status = all.run();
    // Without destruction: that would wait for a name server that does not answer.
    if (const int signal = all.signal(); signal != 0)
        end_by(signal);
    return status;
}

}  // namespace turnstile::cli
