-- SPDX-License-Identifier: Apache-2.0
--
-- Free the textbook lock, whoever holds it. Nobody is told.
--
-- KEYS   1 the lock
-- Result 1 (it was held), 0 (it was free)
--
-- Why so: a lock has a TTL, or at least an owner string that we know; any other string, and a key
-- of another type, is somebody's data and never deleted.
local kind = redis.call('TYPE', KEYS[1])['ok']
if kind == 'none' then
    return 0
end
if kind ~= 'string' then
    return redis.error_reply('WRONGTYPE the key is a ' .. kind)
end
local owner = '^%x+%-%x+%-%x+%-%x+%-%x+:%d+$'
if redis.call('PTTL', KEYS[1]) < 0 and not string.find(redis.call('GET', KEYS[1]), owner) then
    return redis.error_reply('WRONGTYPE the key is a string without a TTL')
end
return redis.call('DEL', KEYS[1])
