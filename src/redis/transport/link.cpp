// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/transport/link.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/strand.hpp>
#include <boost/redis/connection.hpp>
#include <cstddef>
#include <fcntl.h>
#include <fmt/format.h>
#include <mutex>
#include <openssl/err.h>
#include <openssl/sslerr.h>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "redis/transport/boost_redis_config.hpp"
#include "redis/transport/execution.hpp"
#include "redis/transport/fork_guard.hpp"

// The life of a link. A link has these operations of Boost.Redis in progress: the run, which connects, reads and
// writes until the link breaks; the receive, which only keeps the counter of pushes from filling up (the parser
// forwards the messages); and the executions. The link ends when all of them have completed, because Boost.Redis
// must not be destroyed before. Each of their handlers shares the ownership of the link, so that the link lives as
// long as any of them, and is destroyed with the context.

namespace turnstile::redis::detail {

namespace asio = boost::asio;

namespace {

using boost::redis::any_adapter;
using boost::redis::resp3::node_view;

/// The links of a context. A forked child shares their sockets with its parent, and Asio would let it read the answers
/// to its parent.
class links_of_context final : public asio::execution_context::service
{
public:
    using key_type = links_of_context;

    struct list
    {
        std::mutex mutex;
        std::set<link*> links;
    };

    // Asio uses this member as the key of the service.
    inline static asio::execution_context::id id;

    explicit links_of_context(asio::execution_context& context)
        : service(context)
    {
    }

    /// May outlive the service.
    [[nodiscard]] const std::shared_ptr<list>& all() const noexcept { return all_; }

private:
    void shutdown() override {}

    void notify_fork(asio::execution_context::fork_event event) override
    {
        if (event != asio::execution_context::fork_child)
            return;
        const std::lock_guard lock(all_->mutex);
        for (link* each : all_->links)
            each->cancel_at_once();
    }

    std::shared_ptr<list> all_ = std::make_shared<list>();
};

/// `Connection` is the connection of Boost.Redis for the type of the executor. The concrete type of a strand makes a
/// command much cheaper, because Boost.Redis copies its executor about twenty times per command.
template <class Connection>
class redis_link final : public link
{
public:
    using executor_type = typename Connection::executor_type;

    redis_link(executor_type executor, const config& settings, std::string channel,
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
        const std::lock_guard lock(siblings_->mutex);
        siblings_->links.insert(this);
    }

    ~redis_link() override
    {
        const std::lock_guard lock(siblings_->mutex);
        siblings_->links.erase(this);
    }

    void start() override
    {
        // Starts the resolver's thread. If the system has none, this throws; within async_run(), Asio would then use a
        // handler that it has moved from.
        if (over_tcp_)
            asio::ip::tcp::resolver(executor_).async_resolve("", "",
                                                             [](const error_code&, const auto&) {});
        receive();
        connection_.async_run(settings_,
                              [self = self()](const error_code& why) { self->stopped(why); });
    }

    void exec(std::string_view command, std::span<const request_word> arguments,
              reply_handler handler, const script* source) override
    {
        execution& op = take_execution();
        op.prepare(command, arguments, std::move(handler));
        op.source = source;
        send(op);
    }

    void set_socket_options() override
    {
        if (!over_tcp_)
            return;
        auto& socket = stream().next_layer();
        // Boost.Redis does not set this option. Without it, a request that is sent while another one is in
        // flight waits for the peer's delayed acknowledgement.
        error_code ignored;
        std::ignore = socket.set_option(asio::ip::tcp::no_delay(true), ignored);
        // Otherwise a program that this process starts would keep the connection open.
        ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
    }

    bool has_socket() override { return !over_tcp_ || stream().next_layer().is_open(); }

    void cancel() override
    {
        // Posted, because the caller may be inside the parser.
        asio::post(executor_,
                   [self = self()]
                   {
                       self->shut_down();
                       self->connection_.cancel();
                   });
    }

    void cancel_at_once() override { connection_.cancel(); }

    /// For Boost.Redis: receives the pushes.
    friend auto boost_redis_adapt(redis_link& self) { return push_adapter{&self}; }

private:
    /// Collects the words of a push message and forwards them when they are complete.
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

    /// Receives the reply to an execution. Never reports an error, because that would close the connection.
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
        // Otherwise Boost.Redis would keep the request for the next connection, which never comes.
        if (stopping_)
            return record_failure(op, "the connection is broken");
        ++executing_;
        connection_.async_exec(op.request, any_adapter(adapter_of(*this, op)),
                               [self = self(), &op](const error_code& error, std::size_t)
                               { self->executed(op, error); });
    }

    /// Records a failure. Its handler runs in finish(), because the observer has to learn of the link's end
    /// first.
    void record_failure(execution& op, std::string why)
    {
        op.fail(std::move(why));
        failed_.push_back(&op);
    }

    void pushed()
    {
        if (words_count_ == words_.size() && words_[0] == "message")
            observer_->message(words_[2]);
    }

    /// The reply is complete. Boost.Redis reports that one turn of the executor later, see executed().
    void answered(execution& op)
    {
        // The server has become a replica. It keeps its connections, but the address may lead to another server now.
        if (op.error().starts_with("READONLY") && findings_->refusal.empty())
        {
            findings_->refusal = op.error();
            cancel();
        }
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
            record_failure(op, error.message());
        }
        finish();
    }

    /// Loads a script, unless that is in progress. All commands that failed without it are sent again
    /// afterwards.
    void load(const script& what)
    {
        if (std::find(loading_.begin(), loading_.end(), &what) != loading_.end())
            return;
        loading_.push_back(&what);
        const request_word words[] = {{"LOAD"}, {what.text}};
        exec(
            "SCRIPT", words, [this, &what](const reply&) { std::erase(loading_, &what); }, nullptr);
    }

    /// Keeps the counter of pushes from filling up, which would stop the reader.
    void receive()
    {
        receiving_ = true;
        connection_.async_receive2(
            [self = self()](const error_code&)
            {
                self->receiving_ = false;
                // Our own flag, because Boost.Redis forgets a cancellation between two receives.
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

    /// Ends the link after its last operation has completed.
    void finish()
    {
        if (!stopping_ || receiving_ || executing_ != 0 || std::exchange(finished_, true))
            return;
        observer_->ended(why_, *findings_);
        for (execution* each : failed_)
            each->answer();
    }

    /// Ends the connection even if a forked child has a copy of the socket. The child itself only closes its copy.
    void shut_down()
    {
        error_code ignored;
        if (over_tcp_ && !guard_.is_forked())
            std::ignore = stream().next_layer().shutdown(asio::socket_base::shutdown_both, ignored);
    }

    /// This access to the stream and its socket is deprecated, but has no replacement.
    auto& stream()
    {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
        return connection_.next_layer();
#pragma GCC diagnostic pop
    }

    /// Names no server if there are sentinels, because Boost.Redis then makes another stream for each server.
    void name_server(const config& settings)
    {
        if (settings.tls && settings.sentinels.empty())
            set_tls_name(stream().native_handle(), settings);
    }

    executor_type executor_;
    std::shared_ptr<links_of_context::list> siblings_ =
        asio::use_service<links_of_context>(asio::query(executor_, asio::execution::context)).all();
    std::shared_ptr<observer> observer_;
    std::string channel_;
    boost::redis::config settings_;
    bool over_tcp_;
    fork_guard guard_;
    std::shared_ptr<link_findings> findings_ = std::make_shared<link_findings>();

    // The words of a push: `message`, the channel, and the payload.
    std::array<std::string, 3> words_;
    std::size_t words_count_ = 0;
    // Executions are reused, with the memory of their requests. Boost.Redis holds references to them.
    std::vector<std::unique_ptr<execution>> executions_;
    std::vector<execution*> idle_;
    std::vector<execution*> failed_;
    std::vector<const script*> loading_;
    std::size_t executing_ = 0;
    bool receiving_ = false;
    bool stopping_ = false;
    bool finished_ = false;
    error_code why_;

    Connection connection_;
};

}  // namespace

namespace {

constexpr std::string_view plain_remedy =
    "use the server's TLS port, or redis:// instead of rediss://";
constexpr std::string_view tls_remedy = "if the port speaks TLS, use rediss:// instead of redis://";

std::optional<diagnosis> diagnose_tls(const error_code& why)
{
    switch (ERR_GET_REASON(static_cast<unsigned long>(why.value())))
    {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
        return diagnosis{errc::invalid_config, fmt::format("the port does not speak TLS ({}); {}",
                                                           why.message(), plain_remedy)};
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
    // With TLS 1.2, the server reports only this error.
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
        return diagnosis{errc::untrusted_certificate,
                         fmt::format("the server requires a certificate of the client ({}); give "
                                     "cert_file and key_file",
                                     why.message())};
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
        return diagnosis{errc::untrusted_certificate,
                         fmt::format("the server does not accept the certificate in cert_file ({})",
                                     why.message())};
    default:
        return {};
    }
}

}  // namespace

std::optional<diagnosis> diagnose(const error_code& why, const link_findings& findings,
                                  const config& settings)
{
    using boost::redis::error;
    if (!findings.refusal.empty())
        return diagnose(findings.refusal, {}, settings);
    const bool is_tls = why.category() == asio::error::get_ssl_category();
    const bool is_sentinel = why == error::sentinel_resolve_failed;
    // Another sentinel may have a trusted certificate, or accept the user, when it is reachable again.
    const bool is_final = is_tls || findings.refusing_sentinels == settings.sentinels.size();
    std::optional<diagnosis> refused;
    if (!findings.mistrust.empty() && (is_tls || is_sentinel))
        refused = diagnosis{errc::untrusted_certificate, findings.mistrust};
    else if (!findings.sentinel_refusal.empty() && is_sentinel)
        refused = diagnose_sentinel(findings.sentinel_refusal, settings);
    if (refused && !is_final)
        refused->code = errc::unreachable;
    if (refused)
        return refused;
    if (is_sentinel)
        return diagnosis{errc::unreachable,
                         fmt::format("no sentinel reports the master '{}' ({})",
                                     settings.master_name, findings.sentinel_failures)};
    if (is_tls)
        return diagnose_tls(why);
    if (why == error::ssl_handshake_timeout)
        return diagnosis{
            errc::unreachable,
            fmt::format("the server does not answer the TLS handshake; if the port does "
                        "not speak TLS, {}",
                        plain_remedy)};
    if (why == error::pong_timeout)
        return diagnosis{errc::unreachable,
                         "the connection is open, but the server does not answer"};
    if (!settings.tls && settings.unix_socket.empty() &&
        (why == error::invalid_data_type || why == asio::error::eof ||
         why == asio::error::connection_reset))
        return diagnosis{errc::unreachable, fmt::format("{}; {}", why.message(), tls_remedy)};
    if (!findings.master.empty())
        return diagnosis{errc::unreachable,
                         fmt::format("the master at {}: {}", findings.master, why.message())};
    return {};
}

std::shared_ptr<link> link::make(asio::any_io_executor executor, const config& settings,
                                 std::string channel, std::shared_ptr<observer> who)
{
    using strand = asio::strand<asio::io_context::executor_type>;
    if (const auto* const known = executor.target<strand>())
        return std::make_shared<redis_link<boost::redis::basic_connection<strand>>>(
            *known, settings, std::move(channel), std::move(who));
    return std::make_shared<redis_link<boost::redis::connection>>(
        std::move(executor), settings, std::move(channel), std::move(who));
}

}  // namespace turnstile::redis::detail
