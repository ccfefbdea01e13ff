// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "link.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/redis/connection.hpp>
#include <cstddef>
#include <openssl/err.h>
#include <openssl/sslerr.h>
#include <tuple>
#include <utility>
#include <vector>

#include "boost_redis_config.hpp"
#include "execution.hpp"

// The life of a link. Four kinds of operations of Boost.Redis are under way: the run, which connects,
// reads and writes until the link breaks; the receive, which only keeps the counter of pushes from
// filling up (the messages themselves are taken in the parser); the executions; and the end comes when
// all of them have completed, since Boost.Redis must not be destroyed before. Each of their handlers
// shares in the link's ownership, so that it lives for as long as one of them, and dies with the context
// if that is destroyed first.

namespace turnstile::redis::detail {

namespace asio = boost::asio;

namespace {

using boost::redis::any_adapter;
using boost::redis::resp3::node_view;

class redis_link final : public link
{
public:
    redis_link(asio::any_io_executor executor, const config& settings, std::string channel,
               std::shared_ptr<observer> who)
        : executor_(std::move(executor))
        , observer_(std::move(who))
        , channel_(std::move(channel))
        , settings_(make_redis_config(settings, channel_))
        , over_tcp_(settings.unix_socket.empty())
        , connection_(executor_, make_tls_context(settings, findings_),
                      make_redis_logger(settings, findings_))
    {
        name_server(settings);
        connection_.set_receive_response(*this);
    }

    void start() override
    {
        receive();
        connection_.async_run(settings_,
                              [self = self()](const error_code& why) { self->stopped(why); });
    }

    void exec(std::string_view command, std::span<const std::string_view> arguments,
              reply_handler handler, const script* source) override
    {
        execution& op = take_execution();
        op.prepare(command, arguments, std::move(handler));
        op.source = source;
        send(op);
    }

    void set_no_delay() override
    {
        if (!over_tcp_)
            return;
        // Boost.Redis never does it, so a request that is sent while another is under way waits for the
        // peer's delayed acknowledgement.
        error_code ignored;
        std::ignore = stream().next_layer().set_option(asio::ip::tcp::no_delay(true), ignored);
    }

    void cancel() override
    {
        // Not from within the parser, where this may have been called from.
        asio::post(executor_, [self = self()] { self->connection_.cancel(); });
    }

    /// For Boost.Redis: what takes the pushes.
    friend auto boost_redis_adapt(redis_link& self) { return push_adapter{&self}; }

private:
    /// Collects the words of a push message and hands them on when they are complete.
    struct push_adapter
    {
        void on_init() const { link->words_count_ = 0; }
        void on_node(const node_view& node, error_code&) const
        {
            if (node.depth != 1)
                return;
            if (link->words_count_ < link->words_.size())
                link->words_[link->words_count_] = node.value;
            ++link->words_count_;
        }
        void on_done() const { link->pushed(); }

        redis_link* link;
    };

    std::shared_ptr<redis_link> self()
    {
        return std::static_pointer_cast<redis_link>(shared_from_this());
    }

    /// What takes the reply to an execution. It never fails: a failing one would drop the connection.
    static any_adapter::impl_t adapter_of(redis_link& link, execution& op)
    {
        return [&link, &op](any_adapter::parse_event event, const node_view& node, error_code&)
        {
            if (event == any_adapter::parse_event::node)
                op.add(node);
            else if (event == any_adapter::parse_event::done)
                link.answered(op);
        };
    }

    execution& take_execution()
    {
        if (idle_.empty())
            return *executions_.emplace_back(std::make_unique<execution>());
        execution* const op = idle_.back();
        idle_.pop_back();
        return *op;
    }

    void send(execution& op)
    {
        // Boost.Redis would keep it for a connection that is never made.
        if (stopping_)
            return give_up(op, "the connection is broken");
        ++executing_;
        connection_.async_exec(op.request, any_adapter(adapter_of(*this, op)),
                               [self = self(), &op](const error_code& error, std::size_t)
                               { self->executed(op, error); });
    }

    /// Nobody is told before the observer knows that the link is over, see finish().
    void give_up(execution& op, std::string why)
    {
        op.fail(std::move(why));
        failed_.push_back(&op);
    }

    void pushed()
    {
        if (words_count_ == words_.size() && words_[0] == "message")
            observer_->message(words_[1], words_[2]);
    }

    /// The reply is complete; Boost.Redis will say so as well, in executed(), a turn of the executor
    /// later.
    void answered(execution& op)
    {
        if (!op.has_forgotten_script())
            op.answer();
    }

    void executed(execution& op, const error_code& error)
    {
        --executing_;
        if (!op.handler)
        {
            idle_.push_back(&op);
        }
        else if (!error)
        {
            load(*std::exchange(op.source, nullptr));
            send(op);
        }
        else
        {
            give_up(op, error.message());
        }
        finish();
    }

    /// Loads a script, unless that is under way: all that ran into its absence are sent again behind it.
    void load(const script& what)
    {
        if (std::find(loading_.begin(), loading_.end(), &what) != loading_.end())
            return;
        loading_.push_back(&what);
        const std::string_view words[] = {"LOAD", what.text};
        exec(
            "SCRIPT", words, [this, &what](const reply&) { std::erase(loading_, &what); }, nullptr);
    }

    /// Keeps the counter of pushes from filling up, at which the reader would stop.
    void receive()
    {
        receiving_ = true;
        connection_.async_receive2(
            [self = self()](const error_code&)
            {
                self->receiving_ = false;
                // A flag of our own, since Boost.Redis forgets a cancellation between two receives.
                if (self->stopping_)
                    self->finish();
                else
                    self->receive();
            });
    }

    void stopped(const error_code& why)
    {
        stopping_ = true;
        why_ = why;
        connection_.cancel(boost::redis::operation::exec);
        connection_.cancel(boost::redis::operation::receive);
        finish();
    }

    /// Ends the link when the last of its operations has completed.
    void finish()
    {
        if (!stopping_ || receiving_ || executing_ != 0 || std::exchange(finished_, true))
            return;
        observer_->ended(why_, findings_->diagnostic);
        for (execution* each : failed_)
            each->answer();
    }

    /// The way to the stream and its socket is deprecated without a substitute.
    asio::ssl::stream<asio::ip::tcp::socket>& stream()
    {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
        return connection_.next_layer();
#pragma GCC diagnostic pop
    }

    /// Not with sentinels, where Boost.Redis makes another stream for each server.
    void name_server(const config& settings)
    {
        if (settings.tls && settings.sentinels.empty())
            set_tls_name(stream().native_handle(), settings);
    }

    asio::any_io_executor executor_;
    std::shared_ptr<observer> observer_;
    std::string channel_;
    boost::redis::config settings_;
    bool over_tcp_;
    std::shared_ptr<log_findings> findings_ = std::make_shared<log_findings>();

    // Of a push: `message`, the channel, and the payload.
    std::array<std::string, 3> words_;
    std::size_t words_count_ = 0;
    // Executions are used again, with the memory of their requests. Boost.Redis refers to them.
    std::vector<std::unique_ptr<execution>> executions_;
    std::vector<execution*> idle_;
    std::vector<execution*> failed_;
    std::vector<const script*> loading_;
    std::size_t executing_ = 0;
    bool receiving_ = false;
    bool stopping_ = false;
    bool finished_ = false;
    error_code why_;

    boost::redis::connection connection_;
};

}  // namespace

bool link::is_mistrust(const error_code& why)
{
    return why.category() == asio::error::get_ssl_category() &&
           ERR_GET_REASON(static_cast<unsigned long>(why.value())) ==
               SSL_R_CERTIFICATE_VERIFY_FAILED;
}

std::shared_ptr<link> link::make(asio::any_io_executor executor, const config& settings,
                                 std::string channel, std::shared_ptr<observer> who)
{
    return std::make_shared<redis_link>(std::move(executor), settings, std::move(channel),
                                        std::move(who));
}

}  // namespace turnstile::redis::detail
