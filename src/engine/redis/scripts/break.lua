-- SPDX-License-Identifier: Apache-2.0
--
-- Free the lock, whoever holds it, and wake who waits.
--
-- KEYS   1 the lock
-- ARGV   1 the channel; missing: nobody is told
-- Result 1 (it was held), 0 (it was free)
--
-- Why so: a key of another type is somebody's data and not a lock; it is never deleted.
local kind = redis.call('TYPE', KEYS[1])['ok']
if kind == 'none' then
    return 0
end
if kind ~= 'hash' then
    return redis.error_reply('WRONGTYPE the key is a ' .. kind)
end
redis.call('DEL', KEYS[1])
if ARGV[1] then
    redis.pcall('PUBLISH', ARGV[1], '0')
end
return 1
