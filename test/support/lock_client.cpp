// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "lock_client.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <support/running_context.hpp>
#include <thread>
#include <turnstile/redis/async_mutex.hpp>
#include <utility>

namespace turnstile::test {

namespace asio = boost::asio;

namespace {

using guard_type = redis::async_mutex::guard_type;
constexpr std::chrono::seconds watchdog{60};

bool until_deadline(std::chrono::steady_clock::time_point deadline,
                    const std::function<bool()>& condition)
{
    while (!condition())
    {
        if (std::chrono::steady_clock::now() > deadline)
            return condition();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
}

}  // namespace

bool until(const std::function<bool()>& condition)
{
    return until_deadline(std::chrono::steady_clock::now() + watchdog, condition);
}

bool never_within(std::chrono::milliseconds span, const std::function<bool()>& condition)
{
    return !until_deadline(std::chrono::steady_clock::now() + span, condition);
}

redis::config short_leases(const std::string& url)
{
    using std::chrono::milliseconds;
    redis::config settings(url);
    settings.lease = milliseconds(1000);
    settings.claim_lease = milliseconds(500);
    settings.health_check = milliseconds(300);
    settings.max_backoff = milliseconds(100);
    return settings;
}

redis::config undisturbed(const std::string& url)
{
    redis::config settings(url);
    settings.lease = settings.claim_lease = std::chrono::hours(1);
    settings.health_check = settings.connect_timeout = std::chrono::minutes(2);
    settings.max_backoff = std::chrono::milliseconds(50);
    return settings;
}

// --- a candidate --------------------------------------------------------------------------------

/// What the handlers write, on their strand, and the test reads.
struct candidate::shared
{
    explicit shared(asio::any_io_executor where)
        : strand(std::move(where))
    {
    }

    void tell(const error_code& what, guard_type got)
    {
        const std::lock_guard lock(mutex);
        error = what;
        guard = std::move(got);
        fence = guard.fencing_token();
        told = true;
    }

    /// The slot belongs to the strand.
    static void listen(const std::shared_ptr<shared>& self)
    {
        const std::lock_guard lock(self->mutex);
        if (auto slot = self->guard.lost(); slot.is_connected())
            slot.assign(
                [weak = std::weak_ptr(self)](asio::cancellation_type)
                {
                    if (const auto s = weak.lock())
                    {
                        const std::lock_guard again(s->mutex);
                        s->lost = true;
                    }
                });
    }

    guard_type take()
    {
        const std::lock_guard lock(mutex);
        return std::move(guard);
    }

    asio::any_io_executor strand;
    asio::cancellation_signal signal;
    mutable std::mutex mutex;
    bool told = false;
    error_code error;
    guard_type guard;
    std::uint64_t fence = 0;
    bool lost = false;
    std::string unlocked;
};

namespace {

/// Takes the guard, bare or in an optional.
guard_type unpacked(guard_type guard)
{
    return guard;
}

guard_type unpacked(std::optional<guard_type> guard)
{
    return guard ? std::move(*guard) : guard_type();
}

std::string text_of(const error_code& error)
{
    return error ? error.message() : "ok";
}

}  // namespace

candidate::candidate() = default;

candidate::~candidate()
{
    drop();
}

bool candidate::is_told() const
{
    const std::lock_guard lock(shared_->mutex);
    return shared_->told;
}

std::string candidate::result() const
{
    if (!until([this] { return is_told(); }))
        return "waiting";
    const std::lock_guard lock(shared_->mutex);
    if (shared_->error)
        return shared_->error.message();
    return shared_->fence != 0 ? "held" : "not held";
}

error_code candidate::error() const
{
    const std::lock_guard lock(shared_->mutex);
    return shared_->error;
}

bool candidate::holds() const
{
    const std::lock_guard lock(shared_->mutex);
    return shared_->guard.valid();
}

std::uint64_t candidate::fence() const
{
    const std::lock_guard lock(shared_->mutex);
    return shared_->fence;
}

bool candidate::is_told_of_loss() const
{
    const std::lock_guard lock(shared_->mutex);
    return shared_->lost;
}

void candidate::cancel()
{
    asio::post(shared_->strand, [s = shared_] { s->signal.emit(asio::cancellation_type::total); });
}

void candidate::start_unlock()
{
    asio::post(shared_->strand,
               [s = shared_]
               {
                   guard_type guard = s->take();
                   guard.async_unlock(
                       [s](const error_code& error)
                       {
                           const std::lock_guard lock(s->mutex);
                           s->error = error;
                           s->unlocked = text_of(error);
                       });
               });
}

error_code candidate::unlock()
{
    start_unlock();
    if (!until([this] { return !unlocked().empty(); }))
        return asio::error::timed_out;
    return error();
}

std::string candidate::unlocked() const
{
    const std::lock_guard lock(shared_->mutex);
    return shared_->unlocked;
}

void candidate::drop()
{
    const guard_type dropped = shared_->take();
}

// --- a client -----------------------------------------------------------------------------------

struct lock_client::impl
{
    impl(redis::config settings, int threads)
        : context(threads)
        , session(std::make_unique<redis::session>(asio::any_io_executor(context.get_executor()),
                                                   noting(std::move(settings))))
    {
    }

    redis::config noting(redis::config settings)
    {
        settings.logger = [this](redis::log_level, std::string_view text)
        {
            const std::lock_guard lock(mutex);
            log += text;
            log += '\n';
        };
        return settings;
    }

    redis::async_mutex& mutex_of(const std::string& name)
    {
        const std::lock_guard lock(mutex);
        auto& found = mutexes[name];
        if (!found)
            found = std::make_unique<redis::async_mutex>(*session, name);
        return *found;
    }

    template <class Start>
    error_code wait_for(Start start)
    {
        // Behind the locks that the test asked for before.
        settle();
        std::promise<error_code> promise;
        auto future = promise.get_future();
        start([told = std::make_shared<std::promise<error_code>>(std::move(promise))](
                  const error_code& error) { told->set_value(error); });
        if (future.wait_for(watchdog) != std::future_status::ready)
            return asio::error::timed_out;
        return future.get();
    }

    /// A candidate's strand, so that several threads may run the context.
    std::shared_ptr<candidate::shared> make_shared()
    {
        return std::make_shared<candidate::shared>(
            asio::any_io_executor(asio::make_strand(context.get_executor())));
    }

    template <class Start>
    void launch(const std::shared_ptr<candidate::shared>& s, Start start)
    {
        auto handler = [s](const error_code& error, auto result)
        {
            s->tell(error, unpacked(std::move(result)));
            candidate::shared::listen(s);
        };
        // Slots belong to the strand. What one thread starts is started in its order.
        asio::post(s->strand,
                   [s, start, handler]
                   {
                       start(asio::bind_executor(
                           s->strand, asio::bind_cancellation_slot(s->signal.slot(), handler)));
                   });
    }

    /// Waits until what was started has been, for the sake of what is destroyed next.
    void settle() { test::settle(asio::make_strand(context.get_executor())); }

    mutable std::mutex mutex;
    std::string log;
    running_context context;
    std::unique_ptr<redis::session> session;
    std::map<std::string, std::unique_ptr<redis::async_mutex>> mutexes;
};

lock_client::lock_client(const redis::config& settings, int threads)
    : impl_(std::make_unique<impl>(settings, threads))
{
}

lock_client::~lock_client()
{
    impl_->settle();
}

void lock_client::choose(const std::string& name, const redis::mutex_options& options)
{
    const std::lock_guard lock(impl_->mutex);
    impl_->mutexes[name] = std::make_unique<redis::async_mutex>(*impl_->session, name, options);
}

std::unique_ptr<candidate> lock_client::lock(const std::string& name)
{
    auto made = std::make_unique<candidate>();
    made->shared_ = impl_->make_shared();
    impl_->launch(made->shared_, [mutex = &impl_->mutex_of(name)](auto handler)
                  { mutex->async_lock(std::move(handler)); });
    return made;
}

std::unique_ptr<candidate> lock_client::try_lock(const std::string& name)
{
    auto made = std::make_unique<candidate>();
    made->shared_ = impl_->make_shared();
    impl_->launch(made->shared_, [mutex = &impl_->mutex_of(name)](auto handler)
                  { mutex->async_try_lock(std::move(handler)); });
    return made;
}

std::unique_ptr<candidate> lock_client::try_lock_for(const std::string& name,
                                                     std::chrono::nanoseconds patience)
{
    auto made = std::make_unique<candidate>();
    made->shared_ = impl_->make_shared();
    impl_->launch(made->shared_, [mutex = &impl_->mutex_of(name), patience](auto handler)
                  { mutex->async_try_lock_for(patience, std::move(handler)); });
    return made;
}

error_code lock_client::ready()
{
    return impl_->wait_for([&](auto handler) { impl_->session->async_ready(std::move(handler)); });
}

error_code lock_client::ping()
{
    return impl_->wait_for([&](auto handler) { impl_->session->async_ping(std::move(handler)); });
}

error_code lock_client::close()
{
    return impl_->wait_for([&](auto handler) { impl_->session->async_close(std::move(handler)); });
}

redis::session_metrics lock_client::metrics() const
{
    return impl_->session->metrics();
}

std::string lock_client::log() const
{
    const std::lock_guard lock(impl_->mutex);
    return impl_->log;
}

void lock_client::destroy_mutex(const std::string& name)
{
    impl_->settle();
    impl_->mutexes.erase(name);
}

void lock_client::destroy_session()
{
    impl_->settle();
    impl_->session.reset();
}

}  // namespace turnstile::test
