// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/serialize.hpp>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <limits>
#include <turnstile/redis/detail/json.hpp>
#include <turnstile/redis/error.hpp>
#include <utility>

namespace turnstile::redis::detail {

namespace {

/// The deepest nesting of arrays and objects. The limit keeps a hostile text from exhausting the stack.
constexpr std::size_t deepest = 64;

/// The beginning of a text for an error, without characters that could garble a log.
std::string quoted(std::string_view text)
{
    constexpr std::size_t longest = 64;
    std::string result = "'";
    for (const char c : text.substr(0, longest))
    {
        if (c >= ' ' && c <= '~')
            result += c;
        else
            result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
    result += '\'';
    if (text.size() > longest)
        result += fmt::format(" and {} bytes more", text.size() - longest);
    return result;
}

/// The handler for Boost.JSON's parser. Boost.JSON's own values would lose duplicate keys, and
/// the format of numbers.
class value_builder
{
public:
    static constexpr std::size_t max_object_size = std::numeric_limits<std::size_t>::max();
    static constexpr std::size_t max_array_size = max_object_size;
    static constexpr std::size_t max_key_size = max_object_size;
    static constexpr std::size_t max_string_size = max_object_size;

    using part = boost::json::string_view;

    bool on_document_begin(error_code&) { return true; }
    bool on_document_end(error_code&) { return true; }

    bool on_array_begin(error_code&) { return open(json_kind::array, "[...]"); }
    bool on_array_end(std::size_t, error_code&) { return close(); }
    bool on_object_begin(error_code&) { return open(json_kind::object, "{...}"); }
    bool on_object_end(std::size_t, error_code&) { return close(); }

    bool on_key_part(part text, std::size_t, error_code&) { return append(text); }
    bool on_key(part text, std::size_t, error_code&)
    {
        append(text);
        key_ = std::exchange(text_, {});
        return true;
    }

    bool on_string_part(part text, std::size_t, error_code&) { return append(text); }
    bool on_string(part text, std::size_t, error_code&) { return add(json_kind::string, text); }

    bool on_number_part(part text, error_code&) { return append(text); }
    bool on_int64(std::int64_t, part text, error_code&) { return add(json_kind::bare, text); }
    bool on_uint64(std::uint64_t, part text, error_code&) { return add(json_kind::bare, text); }
    bool on_double(double, part text, error_code&) { return add(json_kind::bare, text); }

    bool on_bool(bool value, error_code&) { return add(json_kind::bare, value ? "true" : "false"); }
    bool on_null(error_code&) { return add(json_kind::null, "null"); }

    bool on_comment_part(part, error_code&) { return true; }
    bool on_comment(part, error_code&) { return true; }

    json_value take() { return std::move(outermost_.elements.front()); }

private:
    bool append(part text)
    {
        text_ += text;
        return true;
    }

    bool add(json_kind kind, part text)
    {
        append(text);
        path_.back()->elements.push_back(
            {kind, std::exchange(key_, {}), std::exchange(text_, {}), {}});
        return true;
    }

    bool open(json_kind kind, part text)
    {
        add(kind, text);
        path_.push_back(&path_.back()->elements.back());
        return true;
    }

    bool close()
    {
        path_.pop_back();
        return true;
    }

    /// The parts of a key, string or number that have been parsed so far, and the latest key.
    std::string text_;
    std::string key_;
    /// The only element of this value is the value of the whole text.
    json_value outermost_;
    /// The path to the innermost open value. Values are only added there, so the others do not move.
    std::vector<json_value*> path_{&outermost_};
};

/// Parses a text, and returns the error if there is one.
error_code parse(std::string_view text, json_value& to)
{
    boost::json::parse_options options;
    options.max_depth = deepest;
    options.numbers = boost::json::number_precision::none;
    boost::json::basic_parser<value_builder> parser(options);
    error_code error;
    const std::size_t end = parser.write_some(false, text.data(), text.size(), error);
    if (!error && end != text.size())
        error = boost::json::error::extra_data;
    if (!error)
        to = parser.handler().take();
    return error;
}

}  // namespace

void refuse(const excerpt& what, std::string_view rule)
{
    throw redis_error(errc::bad_state,
                      fmt::format("field {}: {} {}", quoted(what.field), quoted(what.text), rule));
}

void refuse(std::string_view field, const json_value& what, std::string_view rule)
{
    refuse({field, what.kind == json_kind::string
                       ? boost::json::serialize(boost::json::string_view(what.text))
                       : what.text},
           rule);
}

json_value parse_json(const excerpt& from)
{
    json_value result;
    const error_code error = parse(from.text, result);
    if (error == boost::json::error::too_deep)
        refuse(from, "is nested too deeply");
    if (error)
        refuse(from, fmt::format("is not JSON text in UTF-8: {}", error.message()));
    return result;
}

std::string json_string(const excerpt& from)
{
    std::string result = boost::json::serialize(boost::json::string_view(from.text));
    // Boost.JSON escapes the characters that require it, but does not check for UTF-8.
    json_value ignored;
    if (parse(result, ignored))
        refuse(from,
               "is not UTF-8, as a string in JSON text has to be; other bytes need a field of "
               "their own");
    return result;
}

std::string json_scalar(const excerpt& from)
{
    const std::string_view text = from.text;
    // No name of an enumerator begins like a number. -inf does, but is no number in JSON.
    const bool is_number =
        text.find_first_of("-0123456789") == 0 && text.find('n') == std::string_view::npos;
    return is_number || text == "true" || text == "false" ? std::string(text) : json_string(from);
}

void begin_element(std::string& json)
{
    if (json.back() != '[' && json.back() != '{')
        json += ',';
}

}  // namespace turnstile::redis::detail
