-- SPDX-License-Identifier: Apache-2.0
--
-- Free the fair lock, whoever holds it, and tell whose turn it is.
--
-- KEYS   1 the lock, 2 the queue, 3 when who counts as dead
-- ARGV   1 the channel, to which the owner string of who is told is added
-- Result 1 (it was held), 0 (it was free)
--
-- Why so: a key of another type is somebody's data and not a lock; it is never deleted. The queue
-- stays: those who wait did nothing wrong.
local kind = redis.call('TYPE', KEYS[1])['ok']
if kind == 'none' then
    return 0
end
if kind ~= 'hash' then
    return redis.error_reply('WRONGTYPE the key is a ' .. kind)
end
redis.call('DEL', KEYS[1])
pcall(function()
    local queue, timeouts = KEYS[2], KEYS[3]
--include queue
    local head = purge()
    if head then
        redis.pcall('PUBLISH', ARGV[1] .. ':' .. head, '0')
    end
end)
return 1
