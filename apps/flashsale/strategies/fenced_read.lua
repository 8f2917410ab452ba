-- SPDX-License-Identifier: Apache-2.0
-- Read the stock under a lock whose fencing token is given, and raise the fence to that token: from
-- now on nothing of an earlier holder is written. The read must do so already: a late write that
-- fell between this read and its write would be overwritten, and its piece sold twice.
--
-- KEYS[1]  the item's id
-- ARGV[1]  the token, ARGV[2] the quantity, ARGV[3] the user or '', ARGV[4] the activity
--
-- Answers {what, n, stock, sale}: what is 'read' (in that sale), 'unknown', 'sold out', 'limit'
-- (the user may have n and has as many as the third), 'split' or 'fenced': a later holder was here.
local id, token, quantity, user = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local kind = redis.call('TYPE', id).ok
if kind == 'none' then
    return {'unknown', 0, 0}
end
if kind == 'list' then
    return {'split', 0, 0}
end
local stock = tonumber(redis.call('GET', id))
if token < tonumber(redis.call('GET', 'fence:' .. id) or 0) then
    return {'fenced', 0, stock}
end
redis.call('SET', 'fence:' .. id, ARGV[1])
if stock < quantity then
    return {'sold out', 0, stock}
end
local limit = tonumber(redis.call('GET', 'per_user:' .. id) or 0)
if limit > 0 then
    local bought = tonumber(redis.call('HGET', 'buyers:' .. ARGV[4] .. ':' .. id, user) or 0)
    if user == '' or bought + quantity > limit then
        return {'limit', limit, bought}
    end
end
return {'read', 0, stock, redis.call('GET', 'sale:' .. id) or ''}
