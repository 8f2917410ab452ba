-- SPDX-License-Identifier: Apache-2.0
-- Write the stock back and record the order, unless a later holder of the lock was here.
--
-- KEYS[1]  the item's id
-- ARGV[1]  the token, ARGV[2] the quantity, ARGV[3] the user or '', ARGV[4] the activity
-- ARGV[5]  the stock to write, ARGV[6] the order's record before it, ARGV[7] behind it
-- ARGV[8]  the sale in which the stock was read
--
-- Answers {what, n, stock}: 'sold' (the nth order, so much is left), 'fenced', or 'changed': the
-- item was PUT anew.
local id, token, user = KEYS[1], tonumber(ARGV[1]), ARGV[3]
if token < tonumber(redis.call('GET', 'fence:' .. id) or 0) then
    return {'fenced', 0, tonumber(redis.call('GET', id))}
end
if (redis.call('GET', 'sale:' .. id) or '') ~= ARGV[8] then
    return {'changed', 0, 0}
end
redis.call('SET', 'fence:' .. id, ARGV[1])
redis.call('SET', id, ARGV[5])
local n = redis.call('RPUSH', 'orders:' .. id, ARGV[6] .. ARGV[5] .. ARGV[7])
if user ~= '' then
    redis.call('HINCRBY', 'buyers:' .. ARGV[4] .. ':' .. id, user, ARGV[2])
end
return {'sold', n, tonumber(ARGV[5])}
