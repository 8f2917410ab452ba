-- SPDX-License-Identifier: Apache-2.0
--
-- Free the fair lock if the tenure holds it, and take the tenure out of the queue whether it holds
-- or not. If the lock is free then, tell whose turn it is, and nobody else.
--
-- KEYS   1 the lock, 2 the queue, 3 when who counts as dead
-- ARGV   1 the channel, to which the owner string of who is told is added, 2 the owner string
-- Result 0     the tenure did not hold it
--        n > 0 released; n - 1 subscribers of other clients heard of it
--
-- Why so: one script for those who hold, who wait, and who do not know, so that it can be repeated
-- until it is answered. The lock goes first, and whatever is wrong with the queue must not turn a
-- release that is done into an error. Who gives up without having been first has changed nothing
-- for anybody, so nobody is told.
local released = redis.call('HDEL', KEYS[1], ARGV[2])
local queue, timeouts, owner = KEYS[2], KEYS[3], ARGV[2]
local heard = 0
pcall(function()
    local first = redis.call('LINDEX', queue, 0)
    if not first then
        return
    end
--include queue
    redis.call('ZREM', timeouts, owner)
    redis.call('LREM', queue, 0, owner)
    local head = redis.call('PTTL', KEYS[1]) == -2 and purge()
    if head and (released == 1 or head ~= first) then
        local count = redis.pcall('PUBLISH', ARGV[1] .. ':' .. head, '0')
        if type(count) == 'number' and head:sub(1, 36) ~= owner:sub(1, 36) then
            heard = count
        end
    end
end)
return released == 1 and 1 + heard or 0
