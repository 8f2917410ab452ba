-- SPDX-License-Identifier: Apache-2.0
-- Check and decrement the stock and record the order, all inside Redis.
--
-- KEYS[1]  the item's id
-- ARGV[1]  the quantity
-- ARGV[2]  the order's record up to the remaining stock, ARGV[3] behind it
-- ARGV[4]  the user, or ''; ARGV[5] the activity
--
-- Answers {what, n, stock}: what is 'sold' (the nth order, so much is left), 'unknown', 'sold out'
-- (so much is there), 'limit' (the user may have n and has as many as the third) or 'split'.
local id, quantity, user = KEYS[1], tonumber(ARGV[1]), ARGV[4]
local kind = redis.call('TYPE', id).ok
if kind == 'none' then
    return {'unknown', 0, 0}
end
if kind == 'list' then
    return {'split', 0, 0}
end
local stock = tonumber(redis.call('GET', id))
if stock < quantity then
    return {'sold out', 0, stock}
end
local buyers = 'buyers:' .. ARGV[5] .. ':' .. id
local limit = tonumber(redis.call('GET', 'per_user:' .. id) or 0)
if limit > 0 then
    local bought = tonumber(redis.call('HGET', buyers, user) or 0)
    if user == '' or bought + quantity > limit then
        return {'limit', limit, bought}
    end
end
local left = redis.call('DECRBY', id, quantity)
local n = redis.call('RPUSH', 'orders:' .. id, ARGV[2] .. string.format('%d', left) .. ARGV[3])
if user ~= '' then
    redis.call('HINCRBY', buyers, user, quantity)
end
return {'sold', n, left}
