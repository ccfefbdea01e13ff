// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "lock_client.hpp"

#include <atomic>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <future>
#include <map>
#include <mutex>
#include <support/any_guard.hpp>
#include <support/running_context.hpp>
#include <support/undisturbed_url.hpp>
#include <thread>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/async_semaphore.hpp>
#include <turnstile/redis/shared_mutex.hpp>
#include <utility>

namespace turnstile::test {

namespace asio = boost::asio;

namespace {

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
    return redis::config(undisturbed_url(url));
}

// --- a candidate --------------------------------------------------------------------------------

/// Data that the handlers write on their strand, and that the test reads.
struct candidate::shared
{
    explicit shared(asio::any_io_executor where)
        : strand(std::move(where))
    {
    }

    void complete(const error_code& what, any_guard got)
    {
        const std::lock_guard lock(mutex);
        error = what;
        guard = std::move(got);
        fence = guard.fence();
        if (!error)
            result = guard ? "held" : "not held";
        is_complete = true;
    }

    void complete(const error_code& what, const std::string& success)
    {
        const std::lock_guard lock(mutex);
        error = what;
        result = success;
        is_complete = true;
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

    any_guard take()
    {
        const std::lock_guard lock(mutex);
        return std::exchange(guard, any_guard());
    }

    asio::any_io_executor strand;
    asio::cancellation_signal signal;
    mutable std::mutex mutex;
    bool is_complete = false;
    error_code error;
    std::string result;
    any_guard guard;
    std::uint64_t fence = 0;
    bool lost = false;
    std::string unlocked;
};

namespace {

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

bool candidate::is_complete() const
{
    const std::lock_guard lock(shared_->mutex);
    return shared_->is_complete;
}

std::string candidate::result() const
{
    if (!until([this] { return is_complete(); }))
        return "waiting";
    const std::lock_guard lock(shared_->mutex);
    return shared_->error ? shared_->error.message() : shared_->result;
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

bool candidate::knows_of_loss() const
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
                   any_guard guard = s->take();
                   // On the strand, because a thread that the test does not join must not destroy
                   // the shared data.
                   guard.release(asio::bind_executor(s->strand,
                                                     [s](const error_code& error)
                                                     {
                                                         const std::lock_guard lock(s->mutex);
                                                         s->error = error;
                                                         s->unlocked = text_of(error);
                                                     }));
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
    const any_guard dropped = shared_->take();
}

void candidate::give_back(std::ptrdiff_t units)
{
    const std::lock_guard lock(shared_->mutex);
    const auto part = shared_->guard.permit().split(units);
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

    template <class Object>
    Object& find(std::map<std::string, std::unique_ptr<Object>>& objects, const std::string& name)
    {
        const std::lock_guard lock(mutex);
        auto& found = objects[name];
        if (!found)
            found = std::make_unique<Object>(*session, name);
        return *found;
    }

    redis::async_mutex& mutex_of(const std::string& name) { return find(mutexes, name); }
    redis::shared_mutex& shared_mutex_of(const std::string& name)
    {
        return find(shared_mutexes, name);
    }
    redis::async_semaphore& semaphore_of(const std::string& name)
    {
        const std::lock_guard lock(mutex);
        return *semaphores.at(name);
    }

    template <class Start>
    error_code wait_for(Start start)
    {
        // After all operations that the test started before.
        settle();
        std::promise<error_code> promise;
        auto future = promise.get_future();
        start([result = std::make_shared<std::promise<error_code>>(std::move(promise))](
                  const error_code& error) { result->set_value(error); });
        if (future.wait_for(watchdog) != std::future_status::ready)
            return asio::error::timed_out;
        return future.get();
    }

    /// A candidate has a strand, since several threads may run the context.
    std::shared_ptr<candidate::shared> make_shared()
    {
        return std::make_shared<candidate::shared>(
            asio::any_io_executor(asio::make_strand(context.get_executor())));
    }

    template <class Start>
    std::unique_ptr<candidate> launch(Start start)
    {
        auto made = std::make_unique<candidate>();
        made->shared_ = make_shared();
        start_on_strand(made->shared_, start,
                        [s = made->shared_](const error_code& error, auto result)
                        {
                            s->complete(error, any_guard(std::move(result)));
                            candidate::shared::listen(s);
                        });
        return made;
    }

    /// The same for operations without a guard.
    template <class Start>
    std::unique_ptr<candidate> launch(Start start, const std::string& success)
    {
        auto made = std::make_unique<candidate>();
        made->shared_ = make_shared();
        start_on_strand(made->shared_, start, [s = made->shared_, success](const error_code& error)
                        { s->complete(error, success); });
        return made;
    }

    /// The slots belong to the strand. Operations that one thread starts begin in that order.
    template <class Start, class Handler>
    static void start_on_strand(const std::shared_ptr<candidate::shared>& s, Start start,
                                Handler handler)
    {
        asio::post(s->strand,
                   [s, start, handler]
                   {
                       start(asio::bind_executor(
                           s->strand, asio::bind_cancellation_slot(s->signal.slot(), handler)));
                   });
    }

    /// Waits until all started operations have begun, because the next call destroys something.
    void settle() { test::settle(asio::make_strand(context.get_executor())); }

    mutable std::mutex mutex;
    std::string log;
    running_context context;
    std::unique_ptr<redis::session> session;
    std::map<std::string, std::unique_ptr<redis::async_mutex>> mutexes;
    std::map<std::string, std::unique_ptr<redis::async_semaphore>> semaphores;
    std::map<std::string, std::unique_ptr<redis::shared_mutex>> shared_mutexes;
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

void lock_client::choose_shared(const std::string& name, const redis::mutex_options& options)
{
    const std::lock_guard lock(impl_->mutex);
    impl_->shared_mutexes[name] =
        std::make_unique<redis::shared_mutex>(*impl_->session, name, options);
}

void lock_client::size(const std::string& name, std::ptrdiff_t capacity,
                       const redis::mutex_options& options)
{
    const std::lock_guard lock(impl_->mutex);
    impl_->semaphores[name] =
        std::make_unique<redis::async_semaphore>(*impl_->session, name, capacity, options);
}

std::unique_ptr<candidate> lock_client::lock(const std::string& name)
{
    return impl_->launch([mutex = &impl_->mutex_of(name)](auto handler)
                         { mutex->async_lock(std::move(handler)); });
}

std::unique_ptr<candidate> lock_client::try_lock(const std::string& name)
{
    return impl_->launch([mutex = &impl_->mutex_of(name)](auto handler)
                         { mutex->async_try_lock(std::move(handler)); });
}

std::unique_ptr<candidate> lock_client::try_lock_for(const std::string& name,
                                                     std::chrono::nanoseconds time_limit)
{
    return impl_->launch([mutex = &impl_->mutex_of(name), time_limit](auto handler)
                         { mutex->async_try_lock_for(time_limit, std::move(handler)); });
}

void lock_client::size(const std::string& name, std::ptrdiff_t capacity)
{
    const std::lock_guard lock(impl_->mutex);
    impl_->semaphores[name] =
        std::make_unique<redis::async_semaphore>(*impl_->session, name, capacity);
}

std::unique_ptr<candidate> lock_client::acquire(const std::string& name, std::ptrdiff_t units)
{
    return impl_->launch([pool = &impl_->semaphore_of(name), units](auto handler)
                         { pool->async_acquire(units, std::move(handler)); });
}

std::unique_ptr<candidate> lock_client::try_acquire(const std::string& name, std::ptrdiff_t units)
{
    return impl_->launch([pool = &impl_->semaphore_of(name), units](auto handler)
                         { pool->async_try_acquire(units, std::move(handler)); });
}

std::unique_ptr<candidate> lock_client::take(const std::string& name, std::ptrdiff_t units)
{
    return impl_->launch([pool = &impl_->semaphore_of(name), units](auto handler)
                         { pool->async_take(units, std::move(handler)); }, "taken");
}

std::unique_ptr<candidate> lock_client::start_add(const std::string& name, std::ptrdiff_t units)
{
    return impl_->launch([pool = &impl_->semaphore_of(name), units](auto handler)
                         { pool->async_release(units, std::move(handler)); }, "added");
}

std::unique_ptr<candidate> lock_client::write(const std::string& name)
{
    return impl_->launch([mutex = &impl_->shared_mutex_of(name)](auto handler)
                         { mutex->async_lock(std::move(handler)); });
}

std::unique_ptr<candidate> lock_client::read(const std::string& name)
{
    return impl_->launch([mutex = &impl_->shared_mutex_of(name)](auto handler)
                         { mutex->async_lock_shared(std::move(handler)); });
}

std::unique_ptr<candidate> lock_client::read_to_upgrade(const std::string& name)
{
    return impl_->launch([mutex = &impl_->shared_mutex_of(name)](auto handler)
                         { mutex->async_lock_upgrade(std::move(handler)); });
}

std::unique_ptr<candidate> lock_client::upgrade(const std::string& name, candidate& reader)
{
    return impl_->launch(
        [mutex = &impl_->shared_mutex_of(name), reader = reader.shared_](auto handler)
        { mutex->async_upgrade(reader->guard.upgradable(), std::move(handler)); });
}

error_code lock_client::add(const std::string& name, std::ptrdiff_t units)
{
    return impl_->wait_for([pool = &impl_->semaphore_of(name), units](auto handler)
                           { pool->async_release(units, std::move(handler)); });
}

std::ptrdiff_t lock_client::value(const std::string& name)
{
    const auto available = std::make_shared<std::atomic<std::ptrdiff_t>>(-1);
    const error_code error = impl_->wait_for(
        [pool = &impl_->semaphore_of(name), available](auto handler)
        {
            pool->async_available(
                [available, handler](const error_code& failed, std::ptrdiff_t units) mutable
                {
                    *available = units;
                    handler(failed);
                });
        });
    return error ? -1 : available->load();
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
