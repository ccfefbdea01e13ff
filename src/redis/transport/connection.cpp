// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/transport/connection.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <exception>
#include <fmt/format.h>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "redis/transport/diagnosis.hpp"
#include "redis/transport/fork_guard.hpp"
#include "redis/transport/link.hpp"
#include "redis/transport/self_test.hpp"

// The loop: makes a link, tests it, reports it as connected, waits until it breaks, reports that, and repeats. The
// second failure in a row and later ones are followed by a pause.
//
// The loop is owned by the operations of its link and by the handle of its owner, and owns no operation. So the
// destruction of the context destroys all of them.

namespace turnstile::redis::detail {

namespace asio = boost::asio;

namespace {

using std::chrono::milliseconds;

/// The shortest pause before an attempt.
constexpr milliseconds shortest_pause{20};
/// A link with a shorter life has failed. So a server that drops links at once is not flooded with attempts.
constexpr milliseconds shortest_life{100};

class loop final : public connection,
                   public link::observer,
                   public std::enable_shared_from_this<loop>
{
public:
    loop(asio::any_io_executor executor, const config& settings, wake_channel channel,
         connection::observer& who)
        : executor_(std::move(executor))
        , settings_(settings)
        , wake_channel_(std::move(channel))
        , observer_(&who)
        , timer_(executor_)
    {
        settings_.validate();
    }

    void start() override { attempt(); }
    /// The observer is being destroyed. After close(), another thread may call this, so it must only read then.
    void forget()
    {
        if (observer_ != nullptr)
            observer_ = nullptr;
    }

    [[nodiscard]] const std::string& trouble() const override { return trouble_; }
    [[nodiscard]] std::string remedy(std::string_view error) const override
    {
        return diagnose(error, "EVALSHA", settings_).text;
    }

    void eval(const script& which, std::span<const std::string> keys,
              std::span<const std::string> args, reply_handler handler) override
    {
        words_.clear();
        for (const std::string& each : keys)
            words_.push_back({each});
        for (const std::string& each : args)
            words_.push_back({each});
        eval(which, keys.size(), std::move(handler));
    }

    void eval(const script& which, const request_word& keys, const request_word& args,
              reply_handler handler) override
    {
        words_.clear();
        for (const request_word& each : {keys, args})
        {
            words_.push_back(each);
            // Boost.Redis counts the words. Neither list is empty: each script has a key and an argument.
            words_.resize(words_.size() + each.encoded - 1, request_word{{}, 1});
        }
        eval(which, keys.encoded, std::move(handler));
    }

    void command(std::span<const std::string> words, reply_handler handler) override
    {
        if (!is_open() || words.empty())
            return refuse(std::move(handler));
        words_.clear();
        for (const std::string& each : words.subspan(1))
            words_.push_back({each});
        link_->exec(words.front(), words_, std::move(handler));
    }

    /// The server may refuse this script, which ends the link.
    void check_role() override
    {
        if (!is_open())
            return;
        const std::array<std::string, 1> words{test_->key()};
        eval(script_named("self_test"), {}, words, [](const reply&) {});
    }

    void close(asio::any_completion_handler<void()> handler) override
    {
        closed_ = std::move(handler);
        observer_ = nullptr;
        timer_.cancel();
        if (link_ != nullptr)
            link_->cancel();
        // The end of an open link calls finish_close(). An attempt to connect ends in the background, because nothing
        // can interrupt the system while it resolves a name.
        if (!open_)
            finish_close();
    }

private:
    [[nodiscard]] bool is_open() const
    {
        return open_ && observer_ != nullptr && !guard_.is_forked();
    }

    /// Runs a script with the words that have been collected.
    void eval(const script& which, std::size_t keys, reply_handler handler)
    {
        if (!is_open())
            return refuse(std::move(handler));
        const fmt::format_int count(keys);
        words_.insert(words_.begin(), {{which.sha1}, {{count.data(), count.size()}}});
        link_->exec("EVALSHA", words_, std::move(handler), &which);
    }

    // --- one attempt ------------------------------------------------------------------------

    void attempt()
    {
        if (guard_.is_forked())
            return;
        incarnation_ = next_incarnation_++;
        const std::string channel = wake_channel_(incarnation_);
        failure_.reset();
        lacks_credentials_ = !ask_for_credentials();
        if (lacks_credentials_)
            return ended(make_error_code(errc::unreachable), {});
        try
        {
            test_ = std::make_unique<self_test>(settings_);
            const auto made = link::make(executor_, settings_, channel, shared_from_this());
            link_ = made.get();
            link_->start();
        }
        catch (const redis_error& error)
        {
            failure_ = diagnosis{errc::invalid_config, error.what()};
            return ended(error.code(), {});
        }
        // For instance, the system has no thread for the resolver. An exception must not end the attempts.
        catch (const std::exception& error)
        {
            failure_ = diagnosis{errc::unreachable, error.what()};
            return ended(make_error_code(errc::unreachable), {});
        }
        test_->ask(*link_, channel, [this] { tested(); });
        limit_attempt();
    }

    /// Each step of an attempt has its limit, and the health check ends the set-up if the server sends nothing.
    /// This ends the set-up if the server sends something, but no answers. The time covers the limits of all
    /// steps: up to four for the server and for each sentinel.
    void limit_attempt()
    {
        const auto steps = 4 * static_cast<milliseconds::rep>(1 + settings_.sentinels.size());
        timer_.expires_after(steps * settings_.connect_timeout +
                             2 * settings_.effective_health_check());
        timer_.async_wait(
            [self = shared_from_this(), attempt = incarnation_](const error_code& error)
            {
                if (error || self->incarnation_ != attempt || self->link_ == nullptr || self->open_)
                    return;
                // The system still resolves a name, and nothing can interrupt it.
                if (!self->link_->has_socket())
                    return self->limit_attempt();
                self->failure_ =
                    diagnosis{errc::unreachable,
                              self->settings_.sentinels.empty()
                                  ? "the connection is open, but the server does not answer"
                                  : "the server does not answer, or its name is not resolved"};
                self->link_->cancel();
            });
    }

    /// Fetches the credentials. Returns false if that fails, and then sets the reason.
    bool ask_for_credentials()
    {
        if (!settings_.credentials)
            return true;
        try
        {
            user_credentials given = settings_.credentials();
            settings_.username = std::move(given.username);
            settings_.password = std::move(given.password);
            return true;
        }
        // The source of the credentials may be unreachable for the moment. An exception must not end the attempts.
        catch (const std::exception& error)
        {
            failure_ =
                diagnosis{errc::unreachable,
                          fmt::format("the credentials are not available: {}", error.what())};
        }
        catch (...)
        {
            failure_ = diagnosis{errc::unreachable,
                                 "the credentials are not available: config::credentials threw an "
                                 "exception that is no std::exception"};
        }
        return false;
    }

    /// The self-test received an answer.
    void tested()
    {
        // The test or the link has ended, so this answer has no effect.
        if (link_ == nullptr || open_ || observer_ == nullptr)
            return;
        if (test_->failure())
            link_->cancel();
        else if (test_->is_passed())
            open();
        else if (test_->only_awaits_message())
            await_message();
    }

    /// Waits for the test's message, which the server sends just before or after its last reply.
    void await_message()
    {
        timer_.expires_after(settings_.connect_timeout);
        timer_.async_wait(
            [self = shared_from_this(), attempt = incarnation_](const error_code& error)
            {
                if (error || self->incarnation_ != attempt)
                    return;
                self->test_->end_wait_for_message();
                self->tested();
            });
    }

    void open()
    {
        link_->set_socket_options();
        open_ = true;
        opened_at_ = std::chrono::steady_clock::now();
        await_role_check();
        trouble_.clear();
        // If the log has reported a problem, it reports the end of that as a warning.
        log(std::exchange(has_reported_, false) ? log_level::warning : log_level::info,
            fmt::format("connected to {}, Redis {}, connection {}", settings_.server_name(),
                        test_->server().version, incarnation_));
        if (test_->warning() != std::exchange(warned_, test_->warning()) && !warned_.empty())
            log(log_level::warning, warned_);
        observer_->connected(incarnation_, test_->server());
    }

    /// A server that becomes a replica keeps its connections, and refuses only commands that may write. A session whose
    /// workers wait for jobs sends none, nor does the connection of a replica_watch. So the connection runs the script
    /// of the self-test. If the server refuses that, the link ends.
    void await_role_check()
    {
        timer_.expires_after(settings_.lease);
        timer_.async_wait(
            [self = shared_from_this(), attempt = incarnation_](const error_code& error)
            {
                if (error || self->incarnation_ != attempt || !self->is_open())
                    return;
                self->check_role();
                self->await_role_check();
            });
    }

    // --- events of the link -----------------------------------------------------------------

    void message(std::string_view payload) override
    {
        if (!open_)
        {
            if (test_->hears(payload))
                tested();
        }
        else if (observer_ != nullptr)
        {
            observer_->message(payload);
        }
    }

    void ended(const error_code& why, const link_findings& findings) override
    {
        link_ = nullptr;
        const bool was_open = std::exchange(open_, false);
        timer_.cancel();
        if (observer_ == nullptr)
            return finish_close();
        // If no server knows the wake channel, the next attempt uses it.
        if (!findings.connected && !was_open)
            next_incarnation_ = incarnation_;
        const auto lived = std::chrono::steady_clock::now() - opened_at_;
        if (was_open && lived > shortest_life)
            failures_ = 0;
        // The problem has ended only if the link has survived a health check.
        if (was_open && lived > 2 * settings_.effective_health_check())
            reported_.clear();
        // If the server refuses the health check, Boost.Redis ends the open link with a refusal.
        if (was_open && !findings.refusal.empty())
            failure_ = diagnosis{errc::unreachable, findings.refusal};
        else if (!failure_ && !was_open)
            failure_ = test_->failure() ? test_->failure() : diagnose(why, findings, settings_);
        report(why, was_open);
        // The observer may have closed the connection.
        if (observer_ == nullptr)
            return finish_close();
        pause();
    }

    void report(const error_code& why, bool was_open)
    {
        const bool for_good = failure_ && !failure_->is_temporary();
        const std::string text = failure_ ? failure_->text : why.message();
        trouble_ = fmt::format("{}: {}", settings_.server_name(), text);
        const std::string line =
            fmt::format("{} {} (trying again)",
                        was_open ? "lost the connection to" : "cannot connect to", trouble_);
        // The text of the caller's exception may differ in each attempt.
        report_once(for_good ? log_level::error : log_level::warning,
                    lacks_credentials_ ? "no credentials" : line, line);
        observer_->disconnected(for_good ? failure_->code : errc::unreachable);
    }

    /// Logs a problem once; repetitions have the level debug.
    void report_once(log_level level, const std::string& cause, const std::string& text)
    {
        // The server's texts may differ in each attempt, too, so the set needs a limit.
        constexpr std::size_t limit = 1000;
        if (reported_.size() == limit)
            reported_.clear();
        const bool is_new = reported_.insert(cause).second;
        has_reported_ = has_reported_ || is_new;
        log(is_new ? level : log_level::debug, text);
    }

    // --- pauses -----------------------------------------------------------------------------

    /// No pause after the first failure in a row, then growing pauses with jitter, so that the clients of a server do
    /// not reconnect together.
    milliseconds next_pause()
    {
        const int doublings = std::min(failures_++, 16);
        if (doublings == 0)
            return milliseconds{0};
        const milliseconds longest =
            std::min(settings_.max_backoff, shortest_pause * (1 << doublings));
        std::uniform_int_distribution<milliseconds::rep> jittered(longest.count() / 2,
                                                                  longest.count());
        return milliseconds{jittered(random_)};
    }

    void pause()
    {
        timer_.expires_after(next_pause());
        timer_.async_wait(
            [self = shared_from_this()](const error_code&)
            {
                if (self->observer_ == nullptr)
                    self->finish_close();
                else
                    self->attempt();
            });
    }

    void finish_close()
    {
        if (closed_)
            asio::post(executor_, std::exchange(closed_, nullptr));
    }

    void refuse(reply_handler handler)
    {
        asio::post(executor_, [handler = std::move(handler)]() mutable
                   { std::move(handler)(reply{reply::status::unknown, {}, "not connected"}); });
    }

    void log(log_level level, const std::string& text) const
    {
        if (settings_.logger)
            settings_.logger(level, text);
    }

    asio::any_io_executor executor_;
    config settings_;
    wake_channel wake_channel_;
    // Null when the connection is closed.
    connection::observer* observer_;
    fork_guard guard_;
    std::minstd_rand random_{std::random_device{}()};

    // For the limit of an attempt to connect, the wait for the self-test's message, the checks of the server's role, and
    // the pause after a failure.
    asio::steady_timer timer_;
    std::uint64_t next_incarnation_ = 0;
    std::uint64_t incarnation_ = 0;
    int failures_ = 0;
    link* link_ = nullptr;
    std::unique_ptr<self_test> test_;
    std::optional<diagnosis> failure_;
    std::chrono::steady_clock::time_point opened_at_;
    std::string trouble_;
    // Whether this attempt failed because config::credentials threw an exception.
    bool lacks_credentials_ = false;
    // The problems that were logged since a link last survived a health check, whether their end is to be logged as a
    // warning, and the last logged warning.
    std::set<std::string> reported_;
    bool has_reported_ = false;
    std::string warned_;
    bool open_ = false;
    asio::any_completion_handler<void()> closed_;
    // Kept for its memory.
    std::vector<request_word> words_;
};

}  // namespace

std::shared_ptr<connection> connection::make(asio::any_io_executor executor, const config& settings,
                                             wake_channel channel, observer& who)
{
    const auto made =
        std::make_shared<loop>(std::move(executor), settings, std::move(channel), who);
    // The operations of a link may own the loop longer.
    return {made.get(), [made](connection*) { made->forget(); }};
}

}  // namespace turnstile::redis::detail
