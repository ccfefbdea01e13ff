// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "connection.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <fmt/format.h>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "diagnosis.hpp"
#include "fork_guard.hpp"
#include "link.hpp"
#include "self_test.hpp"

// The loop: make a link, let it show that it works, open the gate for commands, wait until the link
// breaks, close the gate, wait a little, and again.
//
// A link owns the loop through its operations, never the other way round, so that everything goes when
// the context goes.

namespace turnstile::redis::detail {

namespace asio = boost::asio;

namespace {

using std::chrono::milliseconds;

/// The first pause that is one; the very first attempt after a break comes at once.
constexpr milliseconds shortest_pause{20};
/// A link that lived for less did not work, so that a server which drops us at once is not besieged.
constexpr milliseconds shortest_life{100};

}  // namespace

class connection::loop final : public link::observer, public std::enable_shared_from_this<loop>
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

    [[nodiscard]] const asio::any_io_executor& executor() const { return executor_; }
    [[nodiscard]] bool is_open() const { return open_ && !closing_ && !guard_.is_forked(); }
    [[nodiscard]] const std::string& trouble() const { return trouble_; }

    void start() { attempt(); }
    void forget() { observer_ = nullptr; }

    void eval(const script& which, std::span<const std::string> keys,
              std::span<const std::string> args, reply_handler handler)
    {
        if (!is_open())
            return refuse(std::move(handler));
        char digits[20];
        char* const end = fmt::format_to(digits, "{}", keys.size());
        words_.assign({which.sha1, std::string_view(digits, end)});
        words_.insert(words_.end(), keys.begin(), keys.end());
        words_.insert(words_.end(), args.begin(), args.end());
        link_->exec("EVALSHA", words_, std::move(handler), &which);
    }

    void command(std::span<const std::string> words, reply_handler handler)
    {
        if (!is_open() || words.empty())
            return refuse(std::move(handler));
        words_.assign(words.begin() + 1, words.end());
        link_->exec(words.front(), words_, std::move(handler));
    }

    void close(asio::any_completion_handler<void()> handler)
    {
        closed_ = std::move(handler);
        closing_ = true;
        observer_ = nullptr;
        // Whichever is under way; the other does not mind.
        timer_.cancel();
        if (link_ != nullptr)
            link_->cancel();
    }

private:
    // --- one attempt ------------------------------------------------------------------------

    void attempt()
    {
        if (guard_.is_forked())
            return;
        incarnation_ = next_incarnation_++;
        channel_ = wake_channel_(incarnation_);
        test_ = std::make_unique<self_test>(settings_);
        failure_.reset();
        started_ = std::chrono::steady_clock::now();
        try
        {
            const auto made = link::make(executor_, settings_, channel_, shared_from_this());
            link_ = made.get();
            link_->start();
        }
        catch (const redis_error& error)
        {
            failure_ = diagnosis{errc::invalid_config, error.what()};
            return ended(error.code(), {});
        }
        test_->ask(*link_, channel_, [this] { tested(); });
    }

    /// The self-test has got an answer.
    void tested()
    {
        // Of a link that is over: no answer.
        if (link_ == nullptr || open_ || closing_)
            return;
        if (test_->failure())
            link_->cancel();
        else if (test_->is_passed())
            open();
        else if (test_->only_awaits_message())
            await_message();
    }

    /// The server has sent the message before its last reply or sends it right after.
    void await_message()
    {
        timer_.expires_after(settings_.connect_timeout);
        timer_.async_wait(
            [self = shared_from_this(), attempt = incarnation_](const error_code& error)
            {
                if (error || self->incarnation_ != attempt)
                    return;
                self->test_->give_up_waiting();
                self->tested();
            });
    }

    void open()
    {
        timer_.cancel();
        link_->set_no_delay();
        open_ = true;
        trouble_.clear();
        log(log_level::info,
            fmt::format("connected to {}, Redis {}, connection {}", settings_.server_name(),
                        test_->server().version, incarnation_));
        if (!test_->warning().empty())
            log(log_level::warning, test_->warning());
        if (observer_ != nullptr)
            observer_->connected(incarnation_, test_->server());
    }

    // --- what the link says -----------------------------------------------------------------

    void message(std::string_view channel, std::string_view payload) override
    {
        if (channel != channel_)
            return;
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

    void ended(const error_code& why, const std::string& diagnostic) override
    {
        link_ = nullptr;
        const bool was_open = std::exchange(open_, false);
        timer_.cancel();
        if (closing_)
            return finish_close();
        if (was_open && std::chrono::steady_clock::now() - started_ > shortest_life)
            failures_ = 0;
        if (!failure_ && !was_open)
            failure_ = reason(why, diagnostic);
        report(why, was_open);
        // The observer may have closed.
        if (closing_)
            return finish_close();
        pause();
    }

    /// What made an attempt fail, if more is known than that it did.
    [[nodiscard]] std::optional<diagnosis> reason(const error_code& why,
                                                  const std::string& diagnostic) const
    {
        if (test_->failure())
            return test_->failure();
        if (!diagnostic.empty())
            return diagnose(diagnostic, {}, settings_);
        if (link::is_mistrust(why))
            return diagnosis{errc::wrong_credentials,
                             "the server is not trusted: " + why.message()};
        return {};
    }

    void report(const error_code& why, bool was_open)
    {
        const bool for_good = failure_ && !failure_->is_temporary();
        const std::string text = failure_ ? failure_->text : why.message();
        trouble_ = fmt::format("{}: {}", settings_.server_name(), text);
        log(for_good ? log_level::error : log_level::warning,
            fmt::format("{} {}", was_open ? "lost the connection to" : "cannot connect to",
                        trouble_));
        if (observer_ == nullptr)
            return;
        if (for_good)
            observer_->failed_for_good(failure_->code, trouble_);
        else
            observer_->disconnected(was_open ? why : make_error_code(errc::unreachable));
    }

    // --- in between -------------------------------------------------------------------------

    /// None after a link that worked, then ever longer, and never the same for all clients of a server.
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
                if (self->closing_)
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
    connection::observer* observer_;
    fork_guard guard_;
    std::minstd_rand random_{std::random_device{}()};

    // For the pause, and for the message of the self-test.
    asio::steady_timer timer_;
    std::uint64_t next_incarnation_ = 0;
    std::uint64_t incarnation_ = 0;
    int failures_ = 0;
    link* link_ = nullptr;
    std::string channel_;
    std::unique_ptr<self_test> test_;
    std::optional<diagnosis> failure_;
    std::chrono::steady_clock::time_point started_;
    std::string trouble_;
    bool open_ = false;
    bool closing_ = false;
    asio::any_completion_handler<void()> closed_;
    std::vector<std::string_view> words_;
};

connection::connection(asio::any_io_executor executor, const config& settings, wake_channel channel,
                       observer& who)
    : unstarted_(std::make_shared<loop>(std::move(executor), settings, std::move(channel), who))
    , loop_(unstarted_)
{
}

connection::~connection()
{
    // The loop lives on its executor. If it lives no more, neither may the context.
    if (const auto l = unstarted_ ? nullptr : loop_.lock())
    {
        l->forget();
        asio::post(l->executor(), [l] { l->close({}); });
    }
}

void connection::start()
{
    std::exchange(unstarted_, nullptr)->start();
}

void connection::eval(const script& which, std::span<const std::string> keys,
                      std::span<const std::string> args, reply_handler handler)
{
    if (const auto l = loop_.lock())
        l->eval(which, keys, args, std::move(handler));
}

void connection::command(std::span<const std::string> words, reply_handler handler)
{
    if (const auto l = loop_.lock())
        l->command(words, std::move(handler));
}

void connection::close(asio::any_completion_handler<void()> handler)
{
    if (const auto l = loop_.lock())
        l->close(std::move(handler));
}

bool connection::is_connected() const
{
    const auto l = loop_.lock();
    return l && l->is_open();
}

std::string connection::trouble() const
{
    const auto l = loop_.lock();
    return l ? l->trouble() : std::string();
}

}  // namespace turnstile::redis::detail
