-- SPDX-License-Identifier: Apache-2.0
-- Set an item's stock, and forget everything that was sold of it before. Run on each stock server,
-- on that of the item's own key last.
--
-- KEYS[1]  the item's id
-- ARGV[1]  the stock
-- ARGV[2]  into how many segments it is split; 0: not split
-- ARGV[3]  how many pieces one user may have; 0: any number
-- ARGV[4]  how many stock servers there are, ARGV[5] which of them this is: 0 has the item's key
--
-- A split item's key is the list of its segments' keys, <id>_0 and so on, with @<server> behind it
-- if that is not 0; the remainder of the division goes to the first ones. One script, so that
-- nobody sees the item half set. Buyers are kept by activity and item, and nobody has a list of the
-- activities: hence KEYS, which is slow in a big database, and which only PUT does.
local id, stock, segments = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local servers, here = tonumber(ARGV[4]), tonumber(ARGV[5])

local function forget(key)
    redis.call('DEL', key, 'orders:' .. key, 'fence:' .. key)
end

-- The segments that were here; a server without the list has nothing else of the item.
if here > 0 then
    for i = 0, 63 do
        forget(id .. '_' .. i)
    end
elseif redis.call('TYPE', id).ok == 'list' then
    for _, segment in ipairs(redis.call('LRANGE', id, 0, -1)) do
        forget(segment)
    end
end
forget(id)
redis.call('INCR', 'sale:' .. id) -- orders that are inside write nothing back any more
for _, buyers in ipairs(redis.call('KEYS', 'buyers:*:' .. id)) do
    redis.call('DEL', buyers)
end

for i = 0, segments - 1 do
    local key, server = id .. '_' .. i, i % servers
    local share = math.floor(stock / segments)
    if i < stock % segments then
        share = share + 1
    end
    if server == here then
        forget(key)
        redis.call('SET', key, string.format('%d', share))
    end
    if here == 0 then
        redis.call('RPUSH', id, server > 0 and key .. '@' .. server or key)
    end
end
if here > 0 then
    return 'OK'
end

redis.call('DEL', 'per_user:' .. id)
if tonumber(ARGV[3]) > 0 then
    redis.call('SET', 'per_user:' .. id, ARGV[3])
end
redis.call('SET', 'initial:' .. id, ARGV[1])
if segments == 0 then
    redis.call('SET', id, ARGV[1])
end
return 'OK'
