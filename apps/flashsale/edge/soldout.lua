-- SPDX-License-Identifier: Apache-2.0
--
-- Says "sold out" at the edge: an order for an item of which nothing is left, or by a user who has
-- had the pieces that the activity allows, is answered here, from Redis, and costs the shop
-- nothing.
--
-- The one thing that must never happen is a "sold out" while a piece is left. Hence:
-- * The stock is read anew for each order. A cache would go on saying "sold out" after a PUT, and a
--   question costs a tenth of a millisecond: there is nothing to gain that would be worth it.
-- * All of it is read by one script, at one moment. Read one after the other, the segments of a
--   stock that is split anew in between would look empty.
-- * Whatever is not plainly sold out goes to the shop, which knows better: an item that is not
--   there, segments on other servers, a Redis that does not answer in time or says "error".
--
-- Needs lua-nginx-redis (Debian), which is found as "nginx.redis".
local redis = require "nginx.redis"

local CONNECT_MS = 500 -- the time in the queue for a connection is part of it
local ANSWER_MS = 150
local CONNECTIONS = 64 -- to Redis; the other orders queue for one of them
local QUEUE = 8192
local IDLE_MS = 10000
local REST_S = 1 -- Redis was away: do not ask again for so long
local SILENCE_S = 10 -- and do not say it again for so long

-- KEYS    the item; its limit per user; the buyers of the activity
-- ARGV    the user, or "" if nobody is named; the quantity
-- Result  {"sold out"}; {"limit", pieces had, pieces allowed, pieces left}; {"ask"}: the shop
-- Redis 6.0 has no EVAL_RO; it reads all the same.
local QUESTION = [[
local kind = redis.call('TYPE', KEYS[1]).ok
local left = nil
if kind == 'string' then
    left = tonumber(redis.call('GET', KEYS[1]))
elseif kind == 'list' then
    left = 0
    for _, segment in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
        local pieces = nil
        if not string.find(segment, '@', 1, true) then
            pieces = tonumber(redis.call('GET', segment) or '')
        end
        if not pieces then
            return {'ask'}
        end
        left = left + math.max(pieces, 0)
    end
end
if not left then
    return {'ask'}
end
if left < 1 then
    return {'sold out'}
end
local limit = tonumber(redis.call('GET', KEYS[2]) or '')
if limit and ARGV[1] ~= '' and tonumber(ARGV[2]) <= left then
    local had = tonumber(redis.call('HGET', KEYS[3], ARGV[1]) or '0')
    if had and had + tonumber(ARGV[2]) > limit then
        return {'limit', had, limit, left}
    end
end
return {'ask'}
]]

-- As the shop says it (serve/orders.c).
local SOLD_OUT = '{"error":"sold out","detail":"fewer are left than were ordered","item":"%s",' ..
    '"remaining":0,"port":%s,"strategy":"edge"}'
local LIMIT = '{"error":"refused","detail":"user %s has %d of at most %d pieces already",' ..
    '"item":"%s","remaining":%d,"port":%s,"strategy":"edge"}'

local M = {}
local host, port
local asks_again_at = 0 -- of this worker, as everything here
local says_again_at = 0

-- Where the stock is. Called once, before there are workers.
function M.open(stock_host, stock_port)
    host, port = stock_host, stock_port
end

-- Redis is away: the orders of the next second go to the shop unasked. It is said now and then.
local function rest(why)
    local now = ngx.now()
    asks_again_at = now + REST_S
    if now >= says_again_at then
        says_again_at = now + SILENCE_S
        ngx.log(ngx.ERR, "soldout: Redis at ", host, ":", port, " does not answer (", why,
            "); orders go to the shop unasked. Is it running?")
    end
    return {"ask"}
end

local function rests()
    return ngx.now() < asks_again_at
end

local function ask(item, user, activity, quantity)
    local connection = redis:new()
    connection:set_timeout(CONNECT_MS)
    local ok, why = connection:connect(host, port, {pool_size = CONNECTIONS, backlog = QUEUE})
    if not ok then
        return rest(why)
    end
    if rests() then -- found out by somebody else while this order was in the queue
        connection:close()
        return {"ask"}
    end
    connection:set_timeout(ANSWER_MS)
    local verdict
    verdict, why = connection:eval(QUESTION, 3, item, "per_user:" .. item,
        "buyers:" .. activity .. ":" .. item, user, quantity)
    if not verdict then -- nil: no answer; false: an error such as LOADING
        connection:close()
        return rest(why)
    end
    connection:set_keepalive(IDLE_MS, CONNECTIONS)
    return verdict
end

-- A parameter of the query: one word as the shop allows it, "" if it is not given, nil otherwise.
local function word(value)
    if value == nil then
        return ""
    end
    if type(value) == "string" and #value <= 64 and value:find("^[%w._-]*$") then
        return value
    end
    return nil
end

-- User, activity and quantity of the order; user "" if the shop is to find them. Bodies are not
-- read here: an order that has one is looked at by its item alone.
local function customer()
    local length = ngx.var.http_content_length
    if ngx.var.http_transfer_encoding or (length and length ~= "0") then
        return "", "", 1
    end
    local query = ngx.req.get_uri_args()
    local user, activity = word(query.user), word(query.activity)
    local quantity = query.quantity == nil and "1" or query.quantity
    if not user or not activity or type(quantity) ~= "string" or not quantity:find("^%d+$") or
        #quantity > 7 then
        return "", "", 1
    end
    return user, activity, quantity
end

local function answer(text)
    ngx.status = 409
    ngx.header["Content-Type"] = "application/json"
    ngx.header["Cache-Control"] = "no-store"
    ngx.header["X-Answered-By"] = "edge"
    ngx.header["Content-Length"] = #text
    ngx.print(text)
    return ngx.exit(409)
end

-- Answer the order if it is in vain; else do nothing, and it goes on to the shop. Item and user are
-- words of letters and digits, so nothing in them has to be quoted.
function M.check(item)
    if ngx.req.get_method() ~= "POST" or rests() then
        return
    end
    local user, activity, quantity = customer()
    local verdict = ask(item, user, activity, quantity)
    if verdict[1] == "sold out" then
        answer(string.format(SOLD_OUT, item, ngx.var.server_port))
    elseif verdict[1] == "limit" then
        answer(string.format(LIMIT, user, verdict[2], verdict[3], item, verdict[4],
            ngx.var.server_port))
    end
end

return M
