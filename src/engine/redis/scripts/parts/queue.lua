-- SPDX-License-Identifier: Apache-2.0
--
-- Part of the scripts of fair locks: the queue's head, without those who count as dead.
--
-- Locals queue (the list of owner strings), timeouts (when each of them counts as dead)
-- Result the locals `now` (the server's clock in ms) and `purge`, which gives the head, and how
--        many it has removed
--
-- Why so: it is the server's clock, which is one for all; Redisson writes the same kind of number
-- by the clocks of its clients. A member without a time was left by somebody who took away only
-- half of it, and would block the lock for ever. Who asks (`keep`) is alive, whatever its time
-- says. One call removes `most`, or a thousand, so that a long queue of dead ones stops nobody else
-- on the server.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function purge(keep, most)
    local head, removed = redis.call('LINDEX', queue, 0), 0
    for _ = 1, most or 1000 do
        local dead_at = head and head ~= keep and redis.call('ZSCORE', timeouts, head)
        if not head or head == keep or (dead_at and tonumber(dead_at) > now) then
            break
        end
        removed = removed + 1
        redis.call('LPOP', queue)
        redis.call('ZREM', timeouts, head)
        head = redis.call('LINDEX', queue, 0)
    end
    return head, removed
end
